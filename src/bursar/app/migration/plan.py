"""The steps of a move, in order, and whether each is done: pure functions of the state.

The order keeps three rules. At no moment do two controllers run: one is stopped, and its pods are
gone, before the other starts. No pod of a gated namespace is created without the gate: the guard
refuses such a pod from the first step to the last. And no quota is deleted: AAQ's ownership of the
definitions ends before anything else changes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from bursar.app.migration.installation import Group, Manifest
from bursar.app.migration.state import (
    SHARED_GATE,
    Probe,
    State,
    are_bursars,
    is_bursars,
)
from bursar.app.names import CONTROLLER, WEBHOOK
from bursar.wire.aaq_installation import DeploymentFacts, WebhookFacts


class Step(Enum):
    """A step of a move. Its value is its name in documents."""

    GUARD = "guard"
    PROTECT = "protect-quotas"
    STOP_OPERATOR = "stop-aaq-operator"
    STOP_CONTROLLER = "stop-aaq-controller"
    REMOVE_CONTROLLER = "remove-aaq-controller"
    SHARE_GATE = "share-gate"
    INSTALL = "install"
    INSTALL_SERVER = "install-webhook"
    INSTALL_WEBHOOKS = "install-webhook-configurations"
    START = "start"
    REMOVE_WEBHOOKS = "remove-aaq-webhooks"
    REMOVE_SERVER = "remove-aaq-server"
    REMOVE_LOCKS = "remove-aaq-locks"
    UNGUARD = "end-guard"
    # The way back:
    STOP_BURSAR = "stop-bursar"
    REMOVE_BURSAR = "remove-bursar-controller"
    LOCK = "lock-namespaces"
    UNINSTALL = "uninstall"
    START_AAQ = "start-aaq-operator"
    AWAIT_AAQ = "await-aaq"
    REMOVE_GATE = "remove-gate"
    VERIFY = "verify-gate"


@dataclass(frozen=True, slots=True)
class Planned:
    """A step, and whether the cluster shows that it is done."""

    step: Step
    is_done: bool
    waits_for: str = ""
    """What is missing, if the step is begun and not done."""


def pending(steps: tuple[Planned, ...]) -> Planned | None:
    """The next step; None if all are done."""
    return next((each for each in steps if not each.is_done), None)


# ------------------------------------------------------------------ from AAQ to Bursar


def takeover(state: State) -> tuple[Planned, ...]:
    """The steps from AAQ to Bursar."""
    middle = tuple(_takeover_steps(state))
    return _guarded(state, middle)


def _guarded(state: State, middle: tuple[Planned, ...]) -> tuple[Planned, ...]:
    """The guard comes first and goes last. If nothing else is left to do, none is needed."""
    is_over = all(each.is_done for each in middle)
    return (
        Planned(Step.GUARD, state.has_guard or is_over),
        *middle,
        Planned(Step.UNGUARD, is_over and not state.has_guard),
    )


def _takeover_steps(state: State) -> Iterator[Planned]:
    owned = f"ownerReferences of {len(state.owned)} objects"
    yield Planned(Step.PROTECT, not state.owned, owned)
    yield Planned(
        Step.STOP_OPERATOR,
        _is_stopped(state.operator, state.operator_pods),
        _pods(state.operator_pods, "AAQ's operator"),
    )
    yield Planned(
        Step.STOP_CONTROLLER,
        _is_stopped(_aaqs(state.controller), state.controller_pods),
        _pods(state.controller_pods, "AAQ's controller"),
    )
    yield Planned(Step.REMOVE_CONTROLLER, _aaqs(state.controller) is None)
    handover = (*_removal_of_server(state), *_installation_of_server(state))
    installed = state.controller is not None and is_bursars(state.controller.metadata)
    if state.installation is not None and state.installation.gates_by_policy:
        # Policies gate pods before AAQ's webhook goes, so that no pod is refused.
        webhooks = _aaqs_webhooks(state.mutating)
        has_gate = webhooks is not None and bool(webhooks.webhooks)
        yield Planned(Step.SHARE_GATE, not has_gate or is_gate_shared(state))
        yield Planned(Step.INSTALL, installed)
        yield _start(state)
        yield from handover
    else:
        yield Planned(Step.INSTALL, installed)
        yield from handover
        yield _start(state)
    yield Planned(Step.REMOVE_LOCKS, not state.job_queues)


def _start(state: State) -> Planned:
    controller = state.controller
    waits_for = ""
    if controller is None or not is_bursars(controller.metadata) or not controller.ready:
        waits_for = "a ready pod of Bursar's controller"
    elif not state.is_active:
        waits_for = "the controller to read the cluster and to switch the gate on"
    else:
        waits_for = _missing_gate(state)
    return Planned(Step.START, not waits_for, waits_for)


def _missing_gate(state: State) -> str:
    if state.probe in {Probe.GATED, Probe.NOWHERE}:
        return ""
    problem = f" ({state.probe_problem})" if state.probe_problem else ""
    return f"the gate on a pod that is created with dry-run: {state.probe.value}{problem}"


def _removal_of_server(state: State) -> Iterator[Planned]:
    yield Planned(
        Step.REMOVE_WEBHOOKS,
        _aaqs_webhooks(state.mutating) is None and _aaqs_webhooks(state.validating) is None,
    )
    has_service = state.service is not None and not is_bursars(state.service)
    is_gone = _aaqs(state.server) is None and not state.server_pods and not has_service
    yield Planned(Step.REMOVE_SERVER, is_gone, _pods(state.server_pods, "AAQ's server"))


def _installation_of_server(state: State) -> Iterator[Planned]:
    installation = state.installation
    if installation is None:
        return
    server, webhooks = installation.of(Group.SERVER), installation.of(Group.WEBHOOKS)
    if server:
        is_deployment = any(each.kind == "Deployment" for each in server)
        deployed = state.server is not None and is_bursars(state.server.metadata)
        is_ready = deployed and state.server is not None and state.server.ready > 0
        is_done = _are_present(state, server) and (is_ready or not is_deployment)
        yield Planned(Step.INSTALL_SERVER, is_done, "a ready pod of Bursar's webhook")
    if webhooks:
        yield Planned(Step.INSTALL_WEBHOOKS, _are_present(state, webhooks))


def _are_present(state: State, wanted: tuple[Manifest, ...]) -> bool:
    """Whether all exist. AAQ's objects of the same names are gone before."""
    present = {(each.resource, each.key) for each in state.present}
    return all((each.resource, each.key) in present for each in wanted)


def is_gate_shared(state: State) -> bool:
    """Whether AAQ's webhook leaves alone what Bursar's policy has gated. AAQ would refuse it."""
    webhooks = _aaqs_webhooks(state.mutating)
    conditions = () if webhooks is None else webhooks.conditions
    return bool(conditions) and all(names.issuperset(SHARED_GATE) for names in conditions)


def _is_stopped(deployment: DeploymentFacts | None, pods: int) -> bool:
    return (deployment is None or deployment.replicas == 0) and not pods


def _aaqs(deployment: DeploymentFacts | None) -> DeploymentFacts | None:
    is_there = deployment is not None and not is_bursars(deployment.metadata)
    return deployment if is_there else None


def _aaqs_webhooks(webhooks: WebhookFacts | None) -> WebhookFacts | None:
    return None if webhooks is None or are_bursars(webhooks) else webhooks


def _pods(count: int, of: str) -> str:
    return f"{count} pods of {of} to end" if count else ""


# ------------------------------------------------------------------ from Bursar to AAQ


def way_back(state: State) -> tuple[Planned, ...]:
    """The steps from Bursar to AAQ."""
    return _guarded(state, tuple(_way_back_steps(state)))


def _way_back_steps(state: State) -> Iterator[Planned]:
    operator = state.operator
    is_running = operator is not None and operator.replicas > 0
    bursars = state.controller if _aaqs(state.controller) is None else None
    yield Planned(
        Step.STOP_BURSAR,
        _is_stopped(bursars, state.bursar_pods),
        _pods(state.bursar_pods, "Bursar's controller"),
    )
    yield Planned(Step.REMOVE_BURSAR, bursars is None)
    yield Planned(Step.LOCK, is_running or _are_locked(state))
    # After AAQ's operator has started, objects of these names are AAQ's.
    yield Planned(Step.UNINSTALL, is_running or not objects_to_uninstall(state))
    yield Planned(Step.START_AAQ, is_running)
    waits_for = _missing_of_aaq(state)
    yield Planned(Step.AWAIT_AAQ, not waits_for, waits_for)
    is_bursars_gate = bool(gate_objects(state)) or state.is_active or is_gate_shared(state)
    yield Planned(Step.REMOVE_GATE, not is_bursars_gate)
    lacking = _missing_gate(state)
    yield Planned(Step.VERIFY, not lacking, lacking)


def objects_to_uninstall(state: State) -> tuple[Manifest, ...]:
    """The objects that go before AAQ starts: all but what gates pods and what quotas depend on."""
    return tuple(each for each in state.present if not each.is_kept and not each.is_gate)


def gate_objects(state: State) -> tuple[Manifest, ...]:
    """The objects of policies that gate pods until AAQ's webhook does."""
    return tuple(each for each in state.present if each.is_gate)


def _are_locked(state: State) -> bool:
    locked = {
        each.metadata.namespace
        for each in state.job_queues
        if each.is_fully_locked and not each.pods
    }
    stale = {each.metadata.namespace for each in state.job_queues if each.pods}
    return locked.issuperset(state.gated_namespaces) and not stale


def _missing_of_aaq(state: State) -> str:
    for name, found in ((CONTROLLER, state.controller), (WEBHOOK, state.server)):
        deployment = _aaqs(found)
        if deployment is None or not deployment.ready:
            return f"a ready pod of AAQ's Deployment {name}"
    webhooks = _aaqs_webhooks(state.mutating)
    if webhooks is None or not webhooks.webhooks:
        return "AAQ's operator to register its webhook"
    return ""
