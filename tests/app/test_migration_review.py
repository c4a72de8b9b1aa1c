"""What a user is told before a move: sentences, and whether the move can begin."""

import json
from dataclasses import replace

import pytest

from bursar.app.cluster.kinds import CRDS
from bursar.app.migration.findings import Level, Readiness, readiness_of
from bursar.app.migration.installation import Installation
from bursar.app.migration.review import review_takeover, review_way_back, suggested
from bursar.app.migration.state import OwnedObject, State, TenantState
from bursar.core.model.namespace import NamespaceObject
from bursar.core.model.selectors.selector import LabelExpression, LabelSelector
from bursar.core.quota.quota import GATE, QuotaKind
from bursar.wire.aaq_installation import (
    AaqFacts,
    DeploymentFacts,
    JobQueueFacts,
    Metadata,
    Owner,
    WebhookFacts,
)
from bursar.wire.model.pod_row import PodRowDecoder
from bursar.wire.quota.unreadable import read_quota
from support.builders.manifests import pod_manifest
from support.migration.aaq_objects import bursars_installation

BY_POLICY = bursars_installation()


def metadata(name: str, *owners: Owner, is_deleting: bool = False, **labels: str) -> Metadata:
    return Metadata(
        name=name,
        namespace="aaq",
        uid=f"uid-{name}",
        labels=labels,
        annotations={},
        owners=owners,
        is_deleting=is_deleting,
    )


def deployment(name: str, *arguments: str, owner: Owner | None = None) -> DeploymentFacts:
    facts = metadata(name) if owner is None else metadata(name, owner)
    return DeploymentFacts(metadata=facts, replicas=2, ready=2, pod_labels={}, arguments=arguments)


def an_aaq(**changes) -> AaqFacts:
    facts = AaqFacts(
        metadata=metadata("aaq"),
        selector=None,
        vmi_mode="",
        sidecars=(),
        allows_cluster_quotas=True,
        phase="Deployed",
        version="v1.8.0",
    )
    return replace(facts, **changes)


def webhooks(name: str, *listed: str, unselective: tuple[str, ...] = ()) -> WebhookFacts:
    return WebhookFacts(
        metadata=metadata(name),
        webhooks=listed,
        conditions=tuple(frozenset() for _ in listed),
        unselective=unselective,
    )


RUNNING = State(
    home="aaq",
    installation=BY_POLICY,
    aaq=an_aaq(),
    operator=deployment("aaq-operator"),
    controller=deployment("aaq-controller"),
    server=deployment("aaq-server"),
    mutating=webhooks("gating-mutator", "gater.cqo.kubevirt.io"),
    validating=webhooks(
        "aaq-validator",
        "remove.pod.gate.validator",
        unselective=("remove.pod.gate.validator",),
    ),
    gated_namespaces=("team",),
)
NOTHING = TenantState(namespaces=(NamespaceObject(name="team"),))


def texts(state: State, tenants: TenantState = NOTHING, level: Level | None = None) -> list[str]:
    found = review_takeover(state, tenants)
    return [f"{each.about}: {each.text}" for each in found if level in {None, each.level}]


def readiness(state: State, tenants: TenantState = NOTHING) -> Readiness:
    return readiness_of(review_takeover(state, tenants))


def has(found: list[str], *parts: str) -> bool:
    return any(all(part in text for part in parts) for text in found)


def test_an_installation_that_fits_is_ready():
    assert readiness(RUNNING) is Readiness.READY
    found = texts(RUNNING, level=Level.CHANGE)
    assert has(found, "Deployment aaq-controller", "deleted after its pods have ended")
    assert has(found, "ValidatingWebhookConfiguration aaq-validator", "every update of every pod")


def test_the_gravest_findings_come_first():
    state = replace(RUNNING, aaq=None, operator=None)
    levels = [each.level for each in review_takeover(state, NOTHING)]

    assert levels[0] is Level.BLOCKER
    assert levels == sorted(levels, key=list(Level).index)


def test_without_aaq_there_is_nothing_to_take_over():
    state = State(home="aaq")

    assert readiness(state) is Readiness.BLOCKED
    assert has(texts(state), "no AAQ object", "name it with -n")


def test_an_operator_that_another_program_keeps_blocks_the_move():
    owner = Owner(
        api_version="operators.coreos.com/v1alpha1", kind="ClusterServiceVersion", name="cnv"
    )
    state = replace(RUNNING, operator=deployment("aaq-operator", owner=owner))

    assert readiness(state) is Readiness.BLOCKED
    assert has(texts(state), "ClusterServiceVersion cnv owns AAQ's operator")


def test_an_aaq_object_that_is_being_deleted_blocks_the_move():
    state = replace(RUNNING, aaq=an_aaq(metadata=metadata("aaq", is_deleting=True)))

    assert readiness(state) is Readiness.BLOCKED
    assert has(texts(state, level=Level.BLOCKER), "is being deleted", "all quotas")


def test_an_operator_at_work_is_waited_for():
    state = replace(RUNNING, aaq=an_aaq(phase="Upgrading"))

    assert readiness(state) is Readiness.NOT_READY
    assert has(texts(state, level=Level.TASK), "the phase is Upgrading")


def test_definitions_that_go_with_the_aaq_object_are_named():
    owned = OwnedObject(resource=CRDS, metadata=metadata("x.aaq.kubevirt.io"))
    state = replace(RUNNING, owned=(owned,))

    assert has(texts(state, level=Level.CHANGE), "owns 1 definitions", "quotas of all tenants")


def test_webhooks_that_the_operator_has_emptied_gate_nothing():
    state = replace(RUNNING, mutating=webhooks("gating-mutator"))

    assert has(texts(state, level=Level.CHANGE), "gating-mutator", "pass without a quota")


# ------------------------------------------------------------------ the manifests


def test_without_manifests_the_command_that_prints_them_is_suggested():
    chosen = LabelSelector(
        match_labels={"team": "a"},
        match_expressions=(LabelExpression(key="x", operator="In", values=("b", "c")),),
    )
    state = replace(
        RUNNING,
        installation=None,
        aaq=an_aaq(selector=chosen, sidecars=("one",)),
        controller=deployment("c", "--VMI_CALCULATOR_CONFIGURATION", "VirtualResources"),
    )

    assert suggested(state) == (
        "bursar manifests --image=IMAGE -n aaq -l 'team=a,x in (b,c)' "
        "--controller-option=--vmi-mode=VirtualResources --controller-option=--sidecars=1 "
        "> bursar.yaml"
    )
    assert has(texts(state, level=Level.FACT), "bursar manifests --image=IMAGE")
    assert readiness(state) is Readiness.READY


def test_the_suggestion_is_what_the_review_accepts():
    """A round: what is suggested for every setting has no task left."""
    options = (
        *("-l", "team=a", "--controller-option=--vmi-mode=VirtualResources"),
        "--controller-option=--sidecars=2",
    )
    state = replace(
        RUNNING,
        aaq=an_aaq(selector=LabelSelector(match_labels={"team": "a"}), sidecars=("a", "b")),
        controller=deployment("c", "--VMI_CALCULATOR_CONFIGURATION=VirtualResources"),
    )
    assert readiness(state) is Readiness.NOT_READY
    found = texts(state, level=Level.TASK)
    assert has(found, "namespaces", "-l team=a")
    assert has(found, "virtual machines", "--vmi-mode=VirtualResources")
    assert has(found, "sidecars", "--sidecars=2")

    fitting = replace(state, installation=bursars_installation(*options))

    assert texts(fitting, level=Level.TASK) == []


def test_on_an_older_api_server_webhooks_are_suggested():
    state = replace(RUNNING, has_policies=False)

    assert "crds rbac controller webhook webhooks" in suggested(state)
    assert has(texts(state, level=Level.TASK), "no MutatingAdmissionPolicy in version v1")


def test_with_webhooks_pods_are_refused_for_a_time():
    by_webhook = bursars_installation("crds", "rbac", "controller", "webhook", "webhooks")
    state = replace(RUNNING, installation=by_webhook)

    assert readiness(state) is Readiness.READY
    assert has(texts(state, level=Level.CHANGE), "refuses new pods of gated namespaces")


def test_manifests_without_what_is_needed_are_not_applied():
    state = replace(RUNNING, installation=Installation(manifests=()))
    found = texts(state, level=Level.TASK)

    assert has(found, "no Deployment aaq-controller")
    assert has(found, "gate no pods")


def test_manifests_that_the_api_server_would_refuse_are_tasks():
    found = review_takeover(RUNNING, NOTHING, ["ServiceMonitor aaq/m: no such kind"])

    assert readiness_of(found) is Readiness.NOT_READY
    assert "would refuse ServiceMonitor aaq/m: no such kind." in found[0].text


def test_another_namespace_is_refused():
    state = replace(RUNNING, home="openshift-cnv")

    assert has(texts(state, level=Level.TASK), "for the namespace aaq", "-n openshift-cnv")


# ------------------------------------------------------------------ tenants


def a_quota(spec: dict, kind: QuotaKind = QuotaKind.NAMESPACED, name: str = "q", **fields):
    place = {} if kind.is_cluster_wide else {"namespace": "team"}
    body = {"metadata": {"name": name, "uid": f"uid-{name}", **place}, "spec": spec, **fields}
    return read_quota(kind, json.dumps(body).encode())


def with_quotas(*quotas) -> TenantState:
    return replace(NOTHING, quotas=quotas)


@pytest.mark.parametrize(
    ("spec", "level", "parts"),
    [
        ({"hard": {"pods": "x"}}, Level.TASK, ("cannot read it", "spec.hard[pods]")),
        ({"hard": {"pods": "-1"}}, Level.TASK, ("not in force as it is written",)),
        ({"hard": {"pods": "1"}, "scopes": ["BestEffort"]}, Level.CHANGE, ("It has scopes",)),
        ({"hard": {"limits.cpu/vmi": "1"}}, Level.CHANGE, ("Neither", "limits.cpu/vmi")),
        ({"hard": {"cpu/vmi": "1"}}, Level.CHANGE, ("cpu/vmi", "Bursar enforces")),
        ({"hard": {"services": "1"}}, Level.CHANGE, ("It is missing", "services")),
    ],
)
def test_quotas_that_are_read_otherwise(spec, level, parts):
    assert has(texts(RUNNING, with_quotas(a_quota(spec)), level), *parts)


def test_a_quota_that_is_read_the_same_is_not_mentioned():
    tenants = with_quotas(a_quota({"hard": {"pods": "5", "requests.cpu": "1"}}))

    assert not has(texts(RUNNING, tenants), "ApplicationAwareResourceQuota team/q")
    assert has(texts(RUNNING, tenants), "1 of one namespace each and 0 cluster-wide")


def test_a_quota_that_aaq_has_let_pods_exceed():
    total = {"hard": {"pods": "6"}, "used": {"pods": "18"}}
    spec = {"quota": {"hard": {"pods": "6"}}, "selector": {"labels": None}}
    quota = a_quota(spec, QuotaKind.CLUSTER, status={"total": total})

    assert has(texts(RUNNING, with_quotas(quota), Level.CHANGE), "pods 18/6", "no pod")


def test_a_quota_in_a_namespace_that_is_not_gated():
    state = replace(RUNNING, gated_namespaces=())

    assert has(texts(state, with_quotas(a_quota({"hard": {"pods": "1"}}))), "not gated")


SUFFIX = "-non-schedulable-resources-managed-rq-x"


@pytest.mark.parametrize(
    ("spec", "managed", "part"),
    [
        ({"hard": {"pods": "1"}}, {"hard": {"services": "1"}}, "Bursar deletes it"),
        ({"hard": {"services": "1"}}, {"hard": {"services": "2"}}, "Its limits differ"),
        (
            {"hard": {"services": "1"}},
            {"hard": {"services": "1"}, "scopes": ["BestEffort"]},
            "AAQ does not change them; Bursar does",
        ),
    ],
)
def test_managed_resource_quotas_that_bursar_writes(spec, managed, part):
    owner = {"kind": "ApplicationAwareResourceQuota", "uid": "uid-q", "controller": True}
    copy = a_quota(managed, QuotaKind.NATIVE, f"q{SUFFIX}")
    copy = replace(copy, labels={"aaq.kubevirt.io": "true"}, owner_uid=owner["uid"])
    tenants = with_quotas(a_quota(spec), copy)

    assert has(texts(RUNNING, tenants, Level.CHANGE), f"ResourceQuota team/q{SUFFIX}", part)


def test_a_managed_resource_quota_without_its_label_is_repaired():
    copy = a_quota({"hard": {"services": "1"}}, QuotaKind.NATIVE, f"q{SUFFIX}")
    tenants = with_quotas(a_quota({"hard": {"services": "1"}}), copy)

    assert has(texts(RUNNING, tenants, Level.CHANGE), "Bursar repairs it")


WIDE = {"quota": {"hard": {"services": "1"}}, "selector": {"annotations": {"team": "sea"}}}
ALL = {"quota": {"hard": {"services": "1"}}, "selector": {"annotations": {}}}
CLUSTER_COPY = "wide-non-schedulable-resources-managed-crq-x"


@pytest.mark.parametrize(
    ("copy", "part"),
    [(None, "It is missing. Bursar creates it for services."), (ALL, "or namespaces are not")],
    ids=["missing", "other namespaces"],
)
def test_managed_cluster_resource_quotas_that_bursar_writes(copy, part):
    quotas = [a_quota(WIDE, QuotaKind.CLUSTER, "wide")]
    if copy is not None:
        found = a_quota(copy, QuotaKind.OPENSHIFT, CLUSTER_COPY)
        owner = quotas[0].quota.uid
        quotas.append(replace(found, labels={"aaq.kubevirt.io": "true"}, owner_uid=owner))
    tenants = replace(with_quotas(*quotas), has_cluster_resource_quotas=True)

    assert has(texts(RUNNING, tenants, Level.CHANGE), f"ClusterResourceQuota {CLUSTER_COPY}", part)
    assert not has(texts(RUNNING, tenants, Level.TASK), "wide")


def test_without_openshift_a_cluster_wide_quota_over_services_is_a_task():
    tenants = with_quotas(a_quota(WIDE, QuotaKind.CLUSTER, "wide"))

    assert has(texts(RUNNING, tenants, Level.TASK), "cannot handle non scheduable resources")


def test_while_a_move_goes_on_no_tenant_stops_it():
    tenants = with_quotas(a_quota({"hard": {"pods": "x"}}))

    assert readiness(RUNNING, tenants) is Readiness.NOT_READY
    assert readiness(replace(RUNNING, has_guard=True), tenants) is Readiness.READY


def a_row(where: str, *gates: str):
    return PodRowDecoder().decode(json.dumps(pod_manifest(where, *gates)).encode())


def test_gated_pods_are_counted_by_namespace():
    rows = (a_row("team/a", GATE), a_row("team/b", GATE, "other"), a_row("left/c", GATE))
    tenants = replace(NOTHING, gated=rows)

    facts = texts(RUNNING, tenants, Level.FACT)
    assert has(facts, "namespace team", "2 pods wait", "1 of them have other gates")
    assert has(texts(RUNNING, tenants, Level.CHANGE), "namespace left", "Bursar releases them")


def test_locks_that_are_held():
    names = [f"n{number}" for number in range(7)]
    queues = tuple(
        JobQueueFacts(
            metadata=replace(metadata("aaqjqc"), namespace=name),
            is_locked=True,
            is_fully_locked=True,
            pods=("p",),
        )
        for name in names
    )
    found = texts(replace(RUNNING, job_queues=queues))

    assert has(found, "There are 7", "deletes them")
    assert has(found, "n0, n1, n2, n3, n4 and 2 more")


def test_objects_that_cannot_be_read_are_tasks():
    tenants = replace(NOTHING, problems=("left out: pods a/b: bad", "cannot be read, so"))

    assert texts(RUNNING, tenants, Level.TASK) == ["objects: left out: pods a/b: bad."]


def test_a_selector_that_cannot_be_read_is_a_task():
    bad = LabelSelector(match_expressions=(LabelExpression(key="k", operator="Like"),))
    state = replace(RUNNING, aaq=an_aaq(selector=bad))

    assert has(texts(state, level=Level.TASK), "namespaces", "cannot be read")
    assert " -l ''" in suggested(state)


# ------------------------------------------------------------------ the way back


def test_the_way_back_needs_aaqs_operator_and_its_object():
    assert readiness_of(review_way_back(RUNNING)) is Readiness.READY
    for missing in ("aaq", "operator"):
        state = replace(RUNNING, **{missing: None})
        assert readiness_of(review_way_back(state)) is Readiness.BLOCKED
    without = replace(RUNNING, has_operator_config=False)
    assert "aaq-config" in review_way_back(without)[0].text
    deleting = replace(RUNNING, aaq=an_aaq(metadata=metadata("aaq", is_deleting=True)))
    assert readiness_of(review_way_back(deleting)) is Readiness.BLOCKED
    elsewhere = replace(RUNNING, home="other")
    assert readiness_of(review_way_back(elsewhere)) is Readiness.NOT_READY
