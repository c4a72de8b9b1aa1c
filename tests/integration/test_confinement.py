"""Policies stop service accounts at what RBAC cannot forbid, and tenants at managed quotas."""

import json
import uuid
from collections.abc import Iterator

import pytest

from bursar.app.install.policies.confinement import (
    MAY_NOT_WRITE_MANAGED,
    ONLY_DRY_RUN,
    ONLY_MANAGED,
    ONLY_THE_GATE,
)
from bursar.app.install.policies.device_protection import (
    ONLY_ALLOCATORS,
    device_protection_documents,
)
from bursar.app.quota.managed.names import MANAGED_SUFFIX
from bursar.core.devices.source import KOORDINATOR
from bursar.core.quota.quota import GATE
from support.builders.manifests import pod_manifest
from support.cluster.control_plane import wait_for_account
from support.install.confined import JSON_PATCH, MERGE_PATCH, Confined
from support.install.printed import printed
from support.processes.kubectl import try_kubectl
from support.until import until_sync

FOREIGN = "example.com/licence"
TENANT = "mallory"
EDITOR = "erin"
CREATOR = "carol"
SCHEDULER = "koord-scheduler"
LABEL = {"aaq.kubevirt.io": "true"}
MANAGED = f"q{MANAGED_SUFFIX}"


def a_quota(name: str, labels: dict | None = None) -> dict:
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": {"hard": {"services": "1"}}}


@pytest.fixture(scope="module")
def confined(control_plane) -> Iterator[Confined]:
    suffix = uuid.uuid4().hex[:6]
    home, namespace = f"aaq-{suffix}", f"tenant-{suffix}"
    text = printed("rbac", "-n", home)
    applied = try_kubectl(control_plane, "apply", "-f", "-", stdin=text)
    assert applied.code == 0, applied.err
    here = Confined(control_plane, home, namespace)
    try:
        here.ask("", "POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        wait_for_account(control_plane, namespace)
        write = ["create", "update", "patch", "delete", "deletecollection", "get", "list"]
        quotas = {"apiGroups": [""], "resources": ["resourcequotas"], "verbs": write}
        status = {"apiGroups": [""], "resources": ["resourcequotas/status"], "verbs": write}
        here.grant(TENANT, quotas, status)
        ours = {
            "apiGroups": ["aaq.kubevirt.io"],
            "resources": ["applicationawareresourcequotas"],
            "verbs": ["update"],
        }
        here.grant(EDITOR, quotas, ours)
        pods = {"apiGroups": [""], "resources": ["pods", "pods/status", "bindings"], "verbs": write}
        here.grant(CREATOR, pods)
        here.grant(SCHEDULER, pods)
        until_sync(lambda: is_in_force(here), "the policies are in force")
        yield here
    finally:
        here.ask("", "DELETE", f"/api/v1/namespaces/{namespace}")
        try_kubectl(
            control_plane, "delete", "--ignore-not-found", "--wait=false", "-f", "-", stdin=text
        )


def is_in_force(here: Confined) -> bool:
    """The last policy that is applied; a dry run passes through admission as well."""
    code, answer = here.ask(TENANT, "POST", f"{here.quotas}?dryRun=All", a_quota("probe", LABEL))
    return code == 403 and MAY_NOT_WRITE_MANAGED in answer["message"]


# ------------------------------------------------------------------ the controller


@pytest.mark.parametrize("others", [(), (FOREIGN,)])
def test_the_controller_removes_the_gate(confined, others):
    pod = confined.create_pod(*others, GATE)
    rest = [{"name": gate} for gate in others]
    change = [{"op": "add", "path": "/spec/schedulingGates", "value": rest}]
    code, answer = confined.ask(
        confined.account("aaq-controller"), "PATCH", pod, change, JSON_PATCH
    )

    assert code == 200, answer
    assert answer["spec"].get("schedulingGates", []) == rest


LIFT = {"op": "remove", "path": "/spec/schedulingGates/1"}
CHANGES = {
    "only a label": [{"op": "add", "path": "/metadata/labels", "value": {"app": "x"}}],
    "nothing": [],
    "a label with the gate": [LIFT, {"op": "add", "path": "/metadata/labels", "value": {"a": "x"}}],
    "an annotation": [LIFT, {"op": "add", "path": "/metadata/annotations", "value": {"a": "x"}}],
    "a finalizer": [LIFT, {"op": "add", "path": "/metadata/finalizers", "value": ["a.b/c"]}],
    "the image": [LIFT, {"op": "replace", "path": "/spec/containers/0/image", "value": "evil"}],
    "the deadline": [LIFT, {"op": "add", "path": "/spec/activeDeadlineSeconds", "value": 1}],
    "a toleration": [
        LIFT,
        {"op": "add", "path": "/spec/tolerations/-", "value": {"operator": "Exists"}},
    ],
    "the node selector": [LIFT, {"op": "add", "path": "/spec/nodeSelector/other", "value": "x"}],
    "a foreign gate": [{"op": "remove", "path": "/spec/schedulingGates/0"}],
    "all gates": [{"op": "remove", "path": "/spec/schedulingGates"}],
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_controller_changes_nothing_else_of_a_pod(confined, change):
    pod = confined.create_pod(FOREIGN, GATE)
    code, answer = confined.ask(
        confined.account("aaq-controller"), "PATCH", pod, CHANGES[change], JSON_PATCH
    )

    assert (code, ONLY_THE_GATE in answer["message"]) == (403, True), answer
    assert confined.ask("", "PATCH", pod, [*CHANGES[change]], JSON_PATCH)[0] == 200


def test_the_controller_writes_managed_quotas_and_no_others(confined):
    user = confined.account("aaq-controller")
    name = f"mine{MANAGED_SUFFIX}"
    created, answer = confined.ask(user, "POST", confined.quotas, a_quota(name, LABEL))
    assert created == 201, answer
    refused = [confined.ask(user, "POST", confined.quotas, a_quota("any"))]
    confined.ask("", "POST", confined.quotas, a_quota("theirs"))
    target = f"{confined.quotas}/theirs"
    refused.append(confined.ask(user, "PATCH", target, {"spec": {"hard": {}}}, MERGE_PATCH))
    refused.append(confined.ask(user, "DELETE", target))

    assert [(code, ONLY_MANAGED in body["message"]) for code, body in refused] == [(403, True)] * 3
    assert confined.ask(user, "DELETE", f"{confined.quotas}/{name}")[0] == 200


# ------------------------------------------------------------------ the webhook


def test_the_webhook_creates_quotas_only_with_dry_run(confined):
    user = confined.account("aaq-server")
    trial = confined.ask(user, "POST", f"{confined.quotas}?dryRun=All", a_quota("trial"))
    real = confined.ask(user, "POST", confined.quotas, a_quota("trial"))

    assert trial[0] == 201, trial
    assert (real[0], ONLY_DRY_RUN in real[1]["message"]) == (403, True)
    assert confined.ask("", "GET", f"{confined.quotas}/trial")[0] == 404


# ------------------------------------------------------------------ tenants


def test_a_tenant_that_may_write_quotas_cannot_write_the_managed_one(confined):
    controller = confined.account("aaq-controller")
    created, answer = confined.ask(controller, "POST", confined.quotas, a_quota(MANAGED, LABEL))
    assert created == 201, answer
    target, more = f"{confined.quotas}/{MANAGED}", {"spec": {"hard": {"services": "99"}}}
    unlabelled = {"metadata": {"labels": None}}
    less = {"status": {"used": {"services": "0"}}}
    refused = [
        confined.ask(TENANT, "PATCH", target, more, MERGE_PATCH),
        confined.ask(TENANT, "PATCH", target, unlabelled, MERGE_PATCH),
        confined.ask(TENANT, "PATCH", f"{target}/status", less, MERGE_PATCH),
        confined.ask(TENANT, "DELETE", target),
        confined.ask(TENANT, "DELETE", confined.quotas),
        confined.ask(TENANT, "POST", confined.quotas, a_quota("forged", LABEL)),
        # With a finalizer on it, the name would stay taken.
        confined.ask(TENANT, "POST", confined.quotas, a_quota(f"later{MANAGED_SUFFIX}")),
    ]

    for code, body in refused:
        assert (code, MAY_NOT_WRITE_MANAGED in body["message"]) == (403, True), body
    # Kubernetes itself goes on counting.
    until_sync(
        lambda: (
            confined.ask("", "GET", target)[1].get("status", {}).get("used") == {"services": "0"}
        ),
        "Kubernetes counts what the quota limits",
    )
    assert confined.ask(EDITOR, "PATCH", target, more, MERGE_PATCH)[0] == 200
    assert confined.ask("", "DELETE", target)[0] == 200


def test_a_tenant_writes_quotas_of_its_own(confined):
    created = confined.ask(TENANT, "POST", confined.quotas, a_quota("own"))
    deleted = confined.ask(TENANT, "DELETE", f"{confined.quotas}/own")

    assert (created[0], deleted[0]) == (201, 200)


def test_quotas_are_deleted_together_unless_one_of_them_is_managed(confined):
    """The request of such a deletion names no object."""
    generated = {**a_quota(""), "metadata": {"generateName": "own-"}}
    for body in (a_quota("own"), generated):
        assert confined.ask(TENANT, "POST", confined.quotas, body)[0] == 201
    deleted = confined.ask(TENANT, "DELETE", confined.quotas)
    left = confined.ask("", "GET", confined.quotas)[1]["items"]
    unlabelled = confined.ask("", "POST", confined.quotas, a_quota(MANAGED))
    refused = confined.ask(TENANT, "DELETE", confined.quotas)
    target = f"{confined.quotas}/{MANAGED}"
    removed = confined.ask("", "DELETE", target)

    assert (deleted[0], left) == (200, []), deleted
    assert (unlabelled[0], refused[0], removed[0]) == (201, 403, 200), refused
    assert MAY_NOT_WRITE_MANAGED in refused[1]["message"]


# ------------------------------------------------------------------ devices


@pytest.fixture
def devices(confined) -> Iterator[None]:
    """Only the scheduler records devices."""
    items = list(device_protection_documents((SCHEDULER,)))
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    assert try_kubectl(confined.plane, "apply", "-f", "-", stdin=text).code == 0
    probe = pod_manifest("probe")
    probe["metadata"]["annotations"] = {KOORDINATOR.annotation: "{}"}
    path = f"{confined.pods}?dryRun=All"
    until_sync(lambda: confined.ask(CREATOR, "POST", path, probe)[0] == 403, "the policy is known")
    yield
    try_kubectl(confined.plane, "delete", "-f", "-", stdin=text)


@pytest.mark.usefixtures("devices")
def test_only_the_scheduler_records_the_devices_of_a_pod(confined):
    pod = confined.create_pod()
    claimed = {"metadata": {"annotations": {KOORDINATOR.annotation: "{}"}}}
    removed = {"metadata": {"annotations": {KOORDINATOR.annotation: None}}}
    other = {"metadata": {"annotations": {"mine": "x"}}}
    binding = {
        "metadata": {"name": pod.rpartition("/")[2], **claimed["metadata"]},
        "target": {"kind": "Node", "name": "n"},
    }
    bindings = f"/api/v1/namespaces/{confined.namespace}/bindings"
    refused = [
        confined.ask(CREATOR, "PATCH", pod, claimed, MERGE_PATCH),
        confined.ask(CREATOR, "PATCH", f"{pod}/status", claimed, MERGE_PATCH),
        confined.ask(CREATOR, "POST", bindings, binding),
    ]
    assert confined.ask(SCHEDULER, "PATCH", pod, claimed, MERGE_PATCH)[0] == 200
    refused.append(confined.ask(CREATOR, "PATCH", pod, removed, MERGE_PATCH))
    kept = confined.ask(CREATOR, "PATCH", pod, other, MERGE_PATCH)

    for code, body in refused:
        assert (code, ONLY_ALLOCATORS in body["message"]) == (403, True), body
    assert kept[0] == 200, kept
