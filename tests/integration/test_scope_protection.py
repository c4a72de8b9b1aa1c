"""A released pod stays under the quotas that were asked about it."""

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from bursar.app.install.admission import MAY_NOT_CHANGE_SCOPE
from bursar.core.quota.quota import GATE
from bursar.core.quota.targeting import GATING_LABEL
from controlplane import ControlPlane
from support.builders.manifests import pod_manifest
from support.cluster.control_plane import wait_for_account
from support.install.printed import printed
from support.processes.kubectl import try_kubectl
from support.until import until_sync

MERGE_PATCH = {"Content-Type": "application/merge-patch+json"}
OURS = "/apis/aaq.kubevirt.io/v1alpha1"


@dataclass
class Place:
    """A gated namespace. No controller runs, so the test decides which pods are released."""

    plane: ControlPlane
    namespace: str

    def ask(self, method: str, path: str, body: Any = None, headers: Any = None) -> tuple[int, Any]:
        code, answer = self.plane.request(method, path, body, headers)
        return code, json.loads(answer)

    def create_pod(self, name: str, *gates: str, **spec: object) -> None:
        pod = pod_manifest(name, *gates, nodeSelector={"no": "such-node"}, **spec)
        code, answer = self.ask("POST", f"/api/v1/namespaces/{self.namespace}/pods", pod)
        assert code == 201, answer

    def patch(self, name: str, change: Any) -> tuple[int, str]:
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}"
        code, answer = self.ask("PATCH", path, change, MERGE_PATCH)
        return code, answer.get("message", "")

    def set_deadline(self, name: str, seconds: int) -> tuple[int, str]:
        return self.patch(name, {"spec": {"activeDeadlineSeconds": seconds}})


@pytest.fixture(scope="module")
def policies(quota_cluster) -> Iterator[None]:
    """Those that come with the webhooks, without them."""
    kept = [
        each
        for each in printed("webhooks").split("---\n")
        if "kind: ValidatingAdmissionPolicy" in each and "name: keep-" in each
    ]
    assert len(kept) == 4
    written = "---\n".join(kept)
    applied = try_kubectl(quota_cluster, "apply", "-f", "-", stdin=written)
    assert applied.code == 0, applied.err
    yield
    try_kubectl(quota_cluster, "delete", "-f", "-", stdin=written)


@pytest.fixture
def place(quota_cluster, policies) -> Iterator[Place]:  # noqa: ARG001 - they are in force
    name = f"scopes-{uuid.uuid4().hex[:6]}"
    here = Place(quota_cluster, name)
    labelled = {"metadata": {"name": name, "labels": {GATING_LABEL: ""}}}
    here.ask("POST", "/api/v1/namespaces", labelled)
    wait_for_account(quota_cluster, name)
    yield here
    here.ask("DELETE", f"/api/v1/namespaces/{name}")


def a_quota(scope: str, *, is_selector: bool, is_for_cluster: bool) -> dict:
    spec: dict = {"hard": {"pods": "5"}}
    if is_selector:
        expression = {"scopeName": scope, "operator": "Exists"}
        spec["scopeSelector"] = {"matchExpressions": [expression]}
    else:
        spec["scopes"] = [scope]
    sort = "Cluster" if is_for_cluster else ""
    return {
        "apiVersion": "aaq.kubevirt.io/v1alpha1",
        "kind": f"ApplicationAware{sort}ResourceQuota",
        "metadata": {"name": "by-deadline"},
        "spec": {"quota": spec, "selector": {"labels": {}}} if is_for_cluster else spec,
    }


@pytest.mark.parametrize(
    ("scope", "is_selector", "is_for_cluster"),
    [("Terminating", False, False), ("NotTerminating", True, False), ("Terminating", False, True)],
)
def test_a_released_pod_cannot_be_moved_to_another_quota(place, scope, is_selector, is_for_cluster):
    """Kubernetes' own quota lets it move, without asking the quota that it moves to."""
    for name in ("released", "unlimited"):
        place.create_pod(name)
    place.create_pod("waiting", GATE)
    without_quota = place.set_deadline("unlimited", 100)
    quota = a_quota(scope, is_selector=is_selector, is_for_cluster=is_for_cluster)
    quotas = f"{OURS}/applicationawareclusterresourcequotas"
    if not is_for_cluster:
        quotas = f"{OURS}/namespaces/{place.namespace}/applicationawareresourcequotas"
    assert place.ask("POST", quotas, quota)[0] == 201
    dry = "released?dryRun=All"
    deadline = {"spec": {"activeDeadlineSeconds": 100}}
    try:
        until_sync(lambda: place.patch(dry, deadline)[0] == 403, "the policy knows the quota")
        refused = place.set_deadline("released", 100)
        lowered = place.set_deadline("unlimited", 50)
        waiting = place.set_deadline("waiting", 100)
        labelled = place.patch("released", {"metadata": {"labels": {"team": "a"}}})
    finally:
        place.ask("DELETE", f"{quotas}/by-deadline")

    assert (refused[0], MAY_NOT_CHANGE_SCOPE in refused[1]) == (403, True)
    # It may be a quota of other tenants, which the owner of the pod may not read.
    named = "a cluster-wide quota" if is_for_cluster else "quota by-deadline"
    assert refused[1].endswith(f"used by {named}")
    assert ("by-deadline" in refused[1]) is not is_for_cluster
    assert [code for code, _ in (without_quota, lowered, waiting, labelled)] == [200] * 4


def test_quotas_with_other_scopes_do_not_matter(place):
    quota = a_quota("BestEffort", is_selector=False, is_for_cluster=False)
    quotas = f"{OURS}/namespaces/{place.namespace}/applicationawareresourcequotas"
    assert place.ask("POST", quotas, quota)[0] == 201
    place.create_pod("released")

    assert place.set_deadline("released", 100)[0] == 200
