"""The plan of a move: which step is next in which state of the cluster."""

import re
from dataclasses import replace

import pytest

from bursar.app.cluster.kinds import resource_of
from bursar.app.cluster.ports import Key
from bursar.app.migration.installation import Group, installation_of
from bursar.app.migration.plan import (
    Planned,
    Step,
    gate_objects,
    objects_to_uninstall,
    pending,
    takeover,
    way_back,
)
from bursar.app.migration.state import SHARED_GATE, Probe, State
from bursar.app.migration.step_texts import STEP_TEXTS
from bursar.wire.aaq_installation import (
    DeploymentFacts,
    JobQueueFacts,
    Metadata,
    WebhookFacts,
)
from support.migration.aaq_objects import bursars_installation

BY_POLICY = bursars_installation()
BY_WEBHOOK = bursars_installation("crds", "rbac", "controller", "webhook", "webhooks")
BURSARS = {"app.kubernetes.io/name": "bursar"}


def metadata(name: str = "", **labels: str) -> Metadata:
    return Metadata(name=name, namespace="aaq", uid=f"uid-{name}", labels=labels, annotations={})


def deployment(name: str, replicas: int = 1, ready: int = 1, labels=None) -> DeploymentFacts:
    facts = metadata(name, **(labels or {}))
    return DeploymentFacts(metadata=facts, replicas=replicas, ready=ready, pod_labels={})


def webhooks(name: str, *conditions: str) -> WebhookFacts:
    return WebhookFacts(
        metadata=metadata(name),
        webhooks=("gater.cqo.kubevirt.io",),
        conditions=(frozenset(conditions),),
        unselective=(),
    )


def a_queue(namespace: str, *pods: str, is_locked: bool = True) -> JobQueueFacts:
    return JobQueueFacts(
        metadata=replace(metadata("aaqjqc"), namespace=namespace),
        is_locked=is_locked,
        is_fully_locked=is_locked,
        pods=pods,
    )


RUNNING = State(
    home="aaq",
    installation=BY_POLICY,
    operator=deployment("aaq-operator"),
    controller=deployment("aaq-controller", 2),
    server=deployment("aaq-server", 2),
    service=metadata("aaq-server"),
    operator_pods=1,
    controller_pods=2,
    server_pods=2,
    mutating=webhooks("gating-mutator"),
    validating=webhooks("aaq-validator"),
    job_queues=(a_queue("team"),),
    gated_namespaces=("team",),
)
"""AAQ is at work."""
MOVED = State(
    home="aaq",
    installation=BY_POLICY,
    operator=deployment("aaq-operator", 0, 0),
    controller=deployment("aaq-controller", 2, 2, BURSARS),
    bursar_pods=2,
    is_active=True,
    probe=Probe.GATED,
    present=BY_POLICY.manifests,
    gated_namespaces=("team",),
)
"""Bursar is at work."""


def names(planned: tuple[Planned, ...]) -> list[Step]:
    return [each.step for each in planned]


def test_every_step_has_a_sentence():
    assert set(STEP_TEXTS) == set(Step)


def test_with_policies_aaqs_webhook_stays_until_bursar_gates():
    assert names(takeover(RUNNING)) == [
        Step.GUARD,
        Step.PROTECT,
        Step.STOP_OPERATOR,
        Step.STOP_CONTROLLER,
        Step.REMOVE_CONTROLLER,
        Step.SHARE_GATE,
        Step.INSTALL,
        Step.START,
        Step.REMOVE_WEBHOOKS,
        Step.REMOVE_SERVER,
        Step.REMOVE_LOCKS,
        Step.UNGUARD,
    ]


def test_with_webhooks_aaqs_server_goes_before_bursars_comes():
    steps = names(takeover(replace(RUNNING, installation=BY_WEBHOOK)))

    assert steps[5:11] == [
        Step.INSTALL,
        Step.REMOVE_WEBHOOKS,
        Step.REMOVE_SERVER,
        Step.INSTALL_SERVER,
        Step.INSTALL_WEBHOOKS,
        Step.START,
    ]


@pytest.mark.parametrize(
    ("changes", "step"),
    [
        ({}, Step.GUARD),
        ({"has_guard": True}, Step.STOP_OPERATOR),
        ({"operator": deployment("aaq-operator", 0, 0)}, Step.STOP_OPERATOR),
        ({"operator_pods": 0}, Step.STOP_CONTROLLER),
        ({"controller": deployment("aaq-controller", 0, 0)}, Step.STOP_CONTROLLER),
        ({"controller_pods": 0}, Step.REMOVE_CONTROLLER),
        ({"controller": None}, Step.SHARE_GATE),
        ({"mutating": webhooks("gating-mutator", *SHARED_GATE)}, Step.INSTALL),
        ({"controller": MOVED.controller}, Step.START),
        ({"is_active": True}, Step.START),
        ({"probe": Probe.GATED}, Step.REMOVE_WEBHOOKS),
        ({"mutating": None}, Step.REMOVE_WEBHOOKS),
        ({"validating": None}, Step.REMOVE_SERVER),
        ({"server": None, "service": None}, Step.REMOVE_SERVER),
        ({"server_pods": 0}, Step.REMOVE_LOCKS),
        ({"job_queues": ()}, Step.UNGUARD),
        ({"has_guard": False}, None),
    ],
)
def test_one_step_follows_the_other(changes, step):
    """The changes add up: each row has those of the rows above."""
    state = RUNNING
    for earlier in _changes_until(changes):
        state = replace(state, **earlier)
    planned = pending(takeover(state))

    assert (None if planned is None else planned.step) is step


def _changes_until(last):
    (mark,) = (
        mark for mark in test_one_step_follows_the_other.pytestmark if mark.name == "parametrize"
    )
    for changes, _ in mark.args[1]:
        yield changes
        if changes is last:
            return


def test_two_controllers_never_run():
    """Bursar's objects are applied only when no pod of AAQ's controller is left."""
    for pods in range(3):
        for replicas in range(3):
            controller = deployment("aaq-controller", replicas)
            state = replace(
                RUNNING,
                has_guard=True,
                operator=None,
                operator_pods=0,
                controller=controller,
                controller_pods=pods,
            )
            planned = pending(takeover(state))
            assert planned is not None
            is_free = not pods and not replicas
            assert planned.step is (Step.REMOVE_CONTROLLER if is_free else Step.STOP_CONTROLLER)


def test_aaqs_operator_that_runs_again_is_stopped_again():
    state = replace(MOVED, operator=deployment("aaq-operator", 1), operator_pods=1, has_guard=True)
    planned = pending(takeover(state))

    assert planned == Planned(Step.STOP_OPERATOR, False, "1 pods of AAQ's operator to end")


@pytest.mark.parametrize(
    ("changes", "waits_for"),
    [
        ({"controller": deployment("c", 1, 0, BURSARS)}, "a ready pod of Bursar's controller"),
        ({"is_active": False}, "the controller to read the cluster and to switch the gate on"),
        ({"probe": Probe.PASSED}, "the gate on a pod that is created with dry-run: it is created"),
        ({"probe": Probe.REFUSED, "probe_problem": "no"}, "the gate on a pod .*reason \\(no\\)"),
    ],
)
def test_bursar_leads_when_it_is_ready_and_gates_a_pod(changes, waits_for):
    found = {each.step: each for each in takeover(replace(MOVED, **changes))}

    assert not found[Step.START].is_done
    assert re.match(waits_for, found[Step.START].waits_for)


def test_bursars_webhook_has_to_be_ready():
    server = deployment("aaq-server", 1, 0, BURSARS)
    state = replace(MOVED, installation=BY_WEBHOOK, present=BY_WEBHOOK.manifests, server=server)
    found = {each.step: each.is_done for each in takeover(state)}

    assert not found[Step.INSTALL_SERVER]
    ready = replace(state, server=replace(server, ready=1))
    assert {each.step: each.is_done for each in takeover(ready)}[Step.INSTALL_SERVER]


# ------------------------------------------------------------------ the way back


def test_the_way_back():
    assert names(way_back(MOVED)) == [
        Step.GUARD,
        Step.STOP_BURSAR,
        Step.REMOVE_BURSAR,
        Step.LOCK,
        Step.UNINSTALL,
        Step.START_AAQ,
        Step.AWAIT_AAQ,
        Step.REMOVE_GATE,
        Step.VERIFY,
        Step.UNGUARD,
    ]


def test_aaq_starts_when_bursar_is_gone_and_all_namespaces_are_locked():
    state = replace(MOVED, has_guard=True)
    assert pending(way_back(state)).step is Step.STOP_BURSAR
    state = replace(state, controller=deployment("aaq-controller", 0, 0, BURSARS))
    assert pending(way_back(state)).step is Step.STOP_BURSAR
    state = replace(state, bursar_pods=0)
    assert pending(way_back(state)).step is Step.REMOVE_BURSAR
    state = replace(state, controller=None)
    assert pending(way_back(state)).step is Step.LOCK
    state = replace(state, job_queues=(a_queue("team"), a_queue("other", "stale")))
    assert pending(way_back(state)).step is Step.LOCK
    state = replace(state, job_queues=(a_queue("team"), a_queue("other")))
    assert pending(way_back(state)).step is Step.UNINSTALL
    state = replace(state, present=gate_objects(state))
    assert pending(way_back(state)).step is Step.START_AAQ


def test_bursars_policy_gates_until_aaqs_webhook_does():
    state = replace(
        RUNNING,
        has_guard=True,
        present=gate_objects(MOVED),
        is_active=True,
        mutating=replace(webhooks("gating-mutator"), webhooks=(), conditions=()),
    )
    planned = pending(way_back(state))
    assert planned == Planned(Step.AWAIT_AAQ, False, "AAQ's operator to register its webhook")
    state = replace(state, server=deployment("aaq-server", 2, 0))
    assert "aaq-server" in pending(way_back(state)).waits_for
    state = replace(state, server=RUNNING.server, mutating=RUNNING.mutating)
    assert pending(way_back(state)).step is Step.REMOVE_GATE
    state = replace(state, present=(), is_active=False)
    shared = replace(state, mutating=webhooks("gating-mutator", *SHARED_GATE))
    assert pending(way_back(shared)).step is Step.REMOVE_GATE
    assert pending(way_back(state)).step is Step.VERIFY
    state = replace(state, probe=Probe.GATED)
    assert pending(way_back(state)).step is Step.UNGUARD
    assert pending(way_back(replace(state, has_guard=False))) is None


def test_definitions_accounts_and_the_gate_are_not_uninstalled():
    going = {each.kind for each in objects_to_uninstall(MOVED)}
    staying = {str(each) for each in MOVED.present} - {
        str(each) for each in objects_to_uninstall(MOVED)
    }

    assert {"ClusterRole", "Deployment", "ValidatingAdmissionPolicy"} <= going
    assert not going & {"CustomResourceDefinition", "Namespace", "ServiceAccount"}
    assert "MutatingAdmissionPolicyBinding gate-pods.bursar.io" in staying
    assert "ValidatingAdmissionPolicy confine-controller.bursar.io" not in staying


# ------------------------------------------------------------------ manifests


def test_objects_with_aaqs_names_are_applied_at_steps_of_their_own():
    server = {str(each) for each in BY_WEBHOOK.of(Group.SERVER)}
    assert "Deployment aaq/aaq-server" in server
    assert "Service aaq/aaq-server" in server
    configurations = {str(each) for each in BY_WEBHOOK.of(Group.WEBHOOKS)}
    assert configurations == {
        "MutatingWebhookConfiguration gating-mutator",
        "ValidatingWebhookConfiguration aaq-validator",
    }
    assert "ServiceAccount aaq/aaq-server" in {str(each) for each in BY_WEBHOOK.of(Group.FIRST)}


def test_the_deployment_of_the_controller_is_applied_last():
    assert str(BY_POLICY.of(Group.FIRST)[-1]) == "Deployment aaq/aaq-controller"
    assert BY_POLICY.of(Group.FIRST)[0].kind == "CustomResourceDefinition"


def test_what_is_no_object_is_refused():
    with pytest.raises(ValueError, match=r"without apiVersion, kind or metadata\.name"):
        installation_of([{"apiVersion": "v1", "kind": "Pod", "metadata": {}}])
    with pytest.raises(ValueError, match="without apiVersion"):
        installation_of([{"apiVersion": "v1", "kind": "Pod"}])


def test_an_object_without_a_namespace_is_in_the_default_one():
    (found,) = installation_of(
        [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}]
    ).manifests

    assert found.key == Key("default", "c")
    assert found.resource == resource_of("v1", "ConfigMap")
    assert installation_of([]).home == ""
    assert installation_of([]).arguments == ()
