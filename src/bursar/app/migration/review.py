"""What a move from AAQ changes, in sentences: pure functions of the state.

A blocker is a problem that Bursar cannot solve. A task must be done by the user before the move. A
change is a difference in behaviour. A fact is worth knowing.
"""

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from bursar.app.controller.gating_check import Installed
from bursar.app.controller.gating_kinds import CONFIGURATIONS
from bursar.app.migration.findings import Finding, Level
from bursar.app.migration.gather import selected_by
from bursar.app.migration.quota_review import quota_findings
from bursar.app.migration.state import OPERATOR_CONFIG, State, TenantState, are_bursars, is_bursars
from bursar.app.operator.names import OPERATOR
from bursar.core.kubevirt.mode import VmiMode
from bursar.core.model.namespace import NAME_LABEL
from bursar.core.model.problem import counted, some_of
from bursar.core.model.selectors.selector import Selector, SelectorError, selector_of
from bursar.core.quota.quota import GATE
from bursar.core.quota.targeting import Targeting
from bursar.wire.aaq_installation import DeploymentFacts

LISTED_MAX: Final = 5
"""How many names a sentence lists."""


def review_takeover(
    state: State, tenants: TenantState, refusals: Sequence[str] = ()
) -> tuple[Finding, ...]:
    """Everything that a user should know before AAQ is replaced.

    `refusals` says which manifests the API server would refuse.
    """
    found = [*_blockers(state), *_installation(state)]
    found += [*_aaq(state), *_webhooks(state), *_ownership(state), *_counting(state)]
    found += [*_pods(state, tenants), *_locks(state)]
    found += (_after_begin(each, state) for each in quota_findings(state, tenants))
    found += [
        Finding(Level.TASK, "manifests", f"The API server would refuse {each}.")
        for each in refusals
    ]
    # Quotas that cannot be read are findings of their own.
    lost = [each for each in tenants.problems if each.startswith("left out")]
    found += [Finding(Level.TASK, "objects", f"{each}.") for each in lost]
    return tuple(sorted(found, key=lambda each: list(Level).index(each.level)))


def _after_begin(finding: Finding, state: State) -> Finding:
    """While a move goes on, no object of a tenant may stop it half-way."""
    is_task = finding.level is Level.TASK and state.has_guard
    return Finding(Level.CHANGE, finding.about, finding.text) if is_task else finding


def review_way_back(state: State) -> tuple[Finding, ...]:
    """Everything that a user should know before Bursar is replaced by AAQ."""
    return tuple(_way_back(state))


# ------------------------------------------------------------------ whether it can begin


def _blockers(state: State) -> Iterator[Finding]:
    if state.aaq is None and state.operator is None:
        text = (
            f"There is no AAQ object, and no Deployment {OPERATOR} in the namespace {state.home}. "
            "If AAQ runs in another namespace, name it with -n. If AAQ was never installed, "
            "install Bursar as docs/how-to/install.md says."
        )
        yield Finding(Level.BLOCKER, "AAQ", text)
        return
    if state.aaq is not None and state.aaq.metadata.is_deleting:
        text = (
            f"The AAQ object {state.aaq.metadata.name} is being deleted. Kubernetes deletes the "
            "definitions that it owns with it, and so all quotas. Remove the ownerReferences from "
            "the definitions now: kubectl get crd -o name | grep aaq.kubevirt.io"
        )
        yield Finding(Level.BLOCKER, "AAQ", text)
    if state.operator is not None:
        yield from _operator_blockers(state.operator)


def _operator_blockers(operator: DeploymentFacts) -> Iterator[Finding]:
    for owner in operator.metadata.owners:
        text = (
            f"{owner} owns AAQ's operator and would start it again. Remove its Subscription and "
            f"the {owner.kind} first, or switch AAQ off where it was switched on. Remove the "
            "ownerReferences from the definitions before that, or all quotas are deleted."
        )
        yield Finding(Level.BLOCKER, f"Deployment {operator.metadata.name}", text)


def _installation(state: State) -> Iterator[Finding]:
    installation = state.installation
    if installation is None:
        text = "To take over, print Bursar's manifests to a file, and name it with -f: "
        text += suggested(state)
        yield Finding(Level.FACT, "manifests", text)
        return
    if installation.controller is None:
        text = (
            "The manifests have no Deployment aaq-controller. Print the parts rbac and controller."
        )
        yield Finding(Level.TASK, "manifests", text)
    elif installation.home != state.home:
        text = (
            f"The manifests are for the namespace {installation.home}, and AAQ runs in "
            f"{state.home}. Print them with -n {state.home}: there Bursar and AAQ share one "
            "Lease, and never act at the same time."
        )
        yield Finding(Level.TASK, "manifests", text)
    if not installation.gates_by_policy and not installation.gates_by_webhook:
        text = "The manifests gate no pods. Print the part policies, or webhook and webhooks."
        yield Finding(Level.TASK, "manifests", text)
    elif installation.gates_by_policy and not state.has_policies:
        text = (
            "The API server has no MutatingAdmissionPolicy in version v1. Print the parts webhook "
            "and webhooks instead of policies."
        )
        yield Finding(Level.TASK, "manifests", text)
    elif not installation.gates_by_policy:
        text = (
            "Webhooks gate pods. While AAQ's server is replaced by Bursar's, the API server "
            "refuses new pods of gated namespaces, usually for less than a minute. Workload "
            "controllers try again. With the part policies (Kubernetes 1.36 or newer) no pod is "
            "refused."
        )
        yield Finding(Level.CHANGE, "manifests", text)
    yield from _selection(state)


def _selection(state: State) -> Iterator[Finding]:
    assert state.installation is not None
    try:
        wanted = selected_by(state.aaq, state.home)
        selectors = tuple(map(selector_of, state.installation.selectors))
    except (SelectorError, ValueError) as error:
        yield Finding(
            Level.TASK, "namespaces", f"A selector of namespaces cannot be read: {error}."
        )
        return
    resource, name = CONFIGURATIONS[0]
    installed = Installed(resource, name, "", selectors)
    if installed.mismatch(Targeting(own_namespace=state.home, selector=wanted)):
        text = (
            f"AAQ gates the namespaces {_shown(wanted)!r}, and the manifests others: "
            f"{', '.join(repr(_shown(each)) for each in selectors)}. Print them with -l "
            f"{shlex.quote(_shown(wanted))}. To gate others, take over first."
        )
        yield Finding(Level.TASK, "namespaces", text)


def _shown(selector: Selector) -> str:
    """The selector without the namespaces that are spared by name."""
    wanted = (each for each in selector.requirements if each.key != NAME_LABEL)
    return ",".join(map(str, wanted))


# ------------------------------------------------------------------ what AAQ has


def _aaq(state: State) -> Iterator[Finding]:
    aaq = state.aaq
    if aaq is not None:
        version = f", version {aaq.version}" if aaq.version else ""
        text = (
            f"Its phase is {aaq.phase or 'not set'}{version}. The object stays, for the way back."
        )
        yield Finding(Level.FACT, f"AAQ {aaq.metadata.name}", text)
        is_running = state.operator is not None and state.operator.replicas > 0
        if is_running and aaq.phase not in {"Deployed", ""}:
            text = (
                f"AAQ's operator is at work: the phase is {aaq.phase}. Wait until it is Deployed."
            )
            yield Finding(Level.TASK, f"AAQ {aaq.metadata.name}", text)
    deployments = {
        "stays, with 0 replicas, for the way back": state.operator,
        "is deleted after its pods have ended, and Bursar's takes its name": state.controller,
        "is deleted when Bursar gates pods": state.server,
    }
    for fate, deployment in deployments.items():
        if deployment is None or is_bursars(deployment.metadata):
            continue
        text = f"It has {deployment.replicas} replicas, {deployment.ready} ready. It {fate}."
        yield Finding(Level.CHANGE, f"Deployment {deployment.metadata.name}", text)


def _webhooks(state: State) -> Iterator[Finding]:
    for kind, found in (("Mutating", state.mutating), ("Validating", state.validating)):
        if found is None or are_bursars(found):
            continue
        about = f"{kind}WebhookConfiguration {found.metadata.name}"
        fate = "It is deleted when Bursar gates pods."
        if not found.webhooks:
            text = (
                "AAQ's operator has emptied it, because a Deployment of AAQ is not ready: at "
                f"present new pods pass without a quota. {fate}"
            )
            yield Finding(Level.CHANGE, about, text)
            continue
        yield Finding(Level.CHANGE, about, f"It has {len(found.webhooks)} webhooks. {fate}")
        if "remove.pod.gate.validator" in found.unselective:
            text = (
                "AAQ checks every update of every pod of the cluster. Bursar checks updates in "
                "gated namespaces only."
            )
            yield Finding(Level.CHANGE, about, text)


def _ownership(state: State) -> Iterator[Finding]:
    definitions = [each for each in state.owned if each.resource.kind.endswith("Definition")]
    if definitions:
        text = (
            f"The AAQ object owns {len(definitions)} definitions. If it were deleted, Kubernetes "
            "would delete the quotas of all tenants. The first step removes these ownerReferences."
        )
        yield Finding(Level.CHANGE, "CustomResourceDefinitions", text)


def _counting(state: State) -> Iterator[Finding]:
    installation, mode = state.installation, vmi_mode(state)
    arguments = () if installation is None else installation.arguments
    yield Finding(Level.FACT, "virtual machines", f"AAQ counts VMs in the mode {mode}.")
    chosen = _option(arguments, "--vmi-mode") or VmiMode.POD_USAGE.value
    if arguments and chosen != mode:
        text = (
            f"AAQ counts VMs in the mode {mode}, and the manifests in {chosen}: quotas would be "
            f"used otherwise. Print them with --controller-option=--vmi-mode={mode}."
        )
        yield Finding(Level.TASK, "virtual machines", text)
    names = () if state.aaq is None else state.aaq.sidecars
    if not names:
        return
    text = (
        f"AAQ's controller has {len(names)} sidecars that count pods: {some_of(names, LISTED_MAX)}."
    )
    chosen = _option(arguments, "--sidecars") or _option(arguments, "--evaluators-sidecars")
    if not arguments or chosen == str(len(names)):
        yield Finding(Level.FACT, "sidecars", text)
        return
    text += (
        " The manifests do not expect them, and without them pods are counted otherwise. Add their "
        "containers to the Deployment aaq-controller, and print the manifests with "
        f"--controller-option=--sidecars={len(names)} (docs/how-to/write-a-sidecar.md)."
    )
    yield Finding(Level.TASK, "sidecars", text)


def vmi_mode(state: State) -> str:
    """The mode in which AAQ counts VMs: what its controller was started with, else the AAQ object.

    A controller without the option counts pods of VMs as any other pod.
    """
    controller = state.controller
    if controller is not None and not is_bursars(controller.metadata):
        return controller.vmi_mode or VmiMode.POD_USAGE.value
    return (state.aaq and state.aaq.vmi_mode) or VmiMode.POD_USAGE.value


def _option(arguments: Sequence[str], name: str) -> str:
    found = (each.partition("=")[2] for each in arguments if each.startswith(f"{name}="))
    return next(found, "")


def suggested(state: State) -> str:
    """The command that prints the manifests which fit this installation of AAQ."""
    parts = "" if state.has_policies else " crds rbac controller webhook webhooks"
    words = [f"bursar manifests{parts} --image=IMAGE -n {state.home}"]
    try:
        selector = _shown(selected_by(state.aaq, state.home))
    except SelectorError:
        selector = ""
    if state.aaq is not None and state.aaq.selector is not None:
        words.append(f"-l {shlex.quote(selector)}")
    if vmi_mode(state) != VmiMode.POD_USAGE.value:
        words.append(f"--controller-option=--vmi-mode={vmi_mode(state)}")
    if state.aaq is not None and state.aaq.sidecars:
        words.append(f"--controller-option=--sidecars={len(state.aaq.sidecars)}")
    return " ".join((*words, "> bursar.yaml"))


# ------------------------------------------------------------------ pods


def _pods(state: State, tenants: TenantState) -> Iterator[Finding]:
    by_namespace = Counter(row.namespace for row in tenants.gated)
    gated = set(state.gated_namespaces)
    for namespace, count in sorted(by_namespace.items()):
        about = f"namespace {namespace}"
        if namespace in gated:
            others = sum(
                1
                for row in tenants.gated
                if row.namespace == namespace and len(row.profile.gates) > 1
            )
            text = f"{counted(count, 'pod')} wait at the gate {GATE}, and go on waiting."
            text += f" {others} of them have other gates as well, which stay." if others else ""
            yield Finding(Level.FACT, about, text)
        else:
            text = (
                f"{counted(count, 'pod')} wait at the gate, and AAQ's selector does not select the "
                "namespace. AAQ still asks the quotas about them. Bursar releases them, because it "
                "holds no pods there. Label the namespace to keep them waiting."
            )
            yield Finding(Level.CHANGE, about, text)


def _locks(state: State) -> Iterator[Finding]:
    locked = [each.metadata.namespace for each in state.job_queues if each.is_locked]
    if state.job_queues:
        count = len(state.job_queues)
        text = f"There are {count}. Bursar does not need them, and the last step deletes them."
        yield Finding(Level.CHANGE, "AAQJobQueueConfigs", text)
    if locked:
        text = (
            f"AAQ is releasing pods in {some_of(locked, LISTED_MAX)}. Bursar counts those again "
            "that keep the gate."
        )
        yield Finding(Level.FACT, "AAQJobQueueConfigs", text)


# ------------------------------------------------------------------ the way back


def _way_back(state: State) -> Iterator[Finding]:
    if state.aaq is None or state.operator is None:
        missing = "AAQ object" if state.aaq is None else f"Deployment {OPERATOR}"
        text = (
            f"AAQ cannot be started: there is no {missing}. "
            "Install AAQ's operator and its AAQ object from AAQ's release first."
        )
        yield Finding(Level.BLOCKER, "AAQ", text)
        return
    if state.aaq.metadata.is_deleting:
        text = "The AAQ object is being deleted. Create it again first."
        yield Finding(Level.BLOCKER, "AAQ", text)
    if not state.has_operator_config:
        text = (
            f"The ConfigMap {OPERATOR_CONFIG} in {state.home} is missing. Without it AAQ's "
            "operator takes its AAQ object for an error. Delete the AAQ object and create it again."
        )
        yield Finding(Level.BLOCKER, "AAQ", text)
    if state.installation is not None and state.installation.home != state.home:
        text = f"The manifests are for the namespace {state.installation.home or '(none)'}."
        yield Finding(Level.TASK, "manifests", text)
    for text in _BACK:
        yield Finding(Level.CHANGE, "AAQ", text)


_REFUSED: Final = (
    "AAQ's webhook gates a pod again that Bursar's policy has gated, and the API server refuses "
    "such a pod. So new pods of gated namespaces are refused for some seconds. Workload "
    "controllers try again."
)
_NOT_OWNED: Final = (
    "The ownerReferences of the definitions stay removed: deleting the AAQ object no longer "
    "deletes the quotas."
)
_ENDS: Final = "What only Bursar has ends: order of release, reasons of events, checks of resizes."
_BACK: Final = (_REFUSED, _NOT_OWNED, _ENDS)
