"""Limits of cluster-wide quotas that are left to OpenShift, on a real cluster with its kind.

OpenShift's controller, which counts, is not there: the tests write the status in its place.
"""

import json
from collections.abc import Iterator

import pytest

from bursar.app.install.policies.confinement import (
    MAY_NOT_WRITE_CLUSTER_MANAGED,
    ONLY_DRY_RUN,
    ONLY_MANAGED,
)
from bursar.app.quota.managed.names import CLUSTER_MANAGED_SUFFIX
from support.builders.pods import listed
from support.install.printed import printed
from support.quota.installed_aaq import AACRQ, ACRQ, cluster_path, custom
from support.quota.openshift import DEFINITION, NAME
from support.until import until_sync

PATH = "/apis/quota.openshift.io/v1/clusterresourcequotas"
MERGE_PATCH = {"Content-Type": "application/merge-patch+json"}
DELEGATED = listed(
    "services=10 services.nodeports=1 configmaps=10 persistentvolumeclaims=10 requests.storage=10Gi"
    " count/pods=7"
)
KEEPER = "quota-keeper"
"""A user that may write ClusterResourceQuotas, and no quotas of AAQ."""


def selector(namespace):
    return {"labels": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}


@pytest.fixture(scope="module")
def openshift(system) -> Iterator:
    """The kind, and policies that allow limits to be left to it."""
    policies = printed("policies", "-n", system.home, "--with-clusterresourcequotas")
    system.run("apply", "-f", "-", stdin=policies)
    install(system)
    until_sync(
        lambda: create(system, "default", "probe", {"services": "1"})[0] == 201,
        "the policies that allow it are in force",
    )
    yield system
    system.run("delete", "crd", NAME, "--ignore-not-found")
    system.run("delete", "clusterrole,clusterrolebinding", KEEPER, "--ignore-not-found")


def install(system):
    system.run("apply", "-f", "-", stdin=json.dumps(DEFINITION))
    system.run("wait", "--for=condition=Established", "--timeout=120s", f"crd/{NAME}")


def managed(system, quota):
    code, found = system.request("GET", f"{PATH}/{quota.name}{CLUSTER_MANAGED_SUFFIX}")
    return found if code == 200 else None


def wait_managed(system, quota, hard):
    def limits():
        found = managed(system, quota)
        return None if found is None else found["spec"]["quota"]["hard"]

    until_sync(lambda: limits() == hard, limits)


def count(system, quota, hard, namespaces):
    """What OpenShift's controller would write."""
    total = {"hard": hard, "used": next(iter(namespaces.values()))}
    parts = [{"namespace": n, "status": {"hard": hard, "used": u}} for n, u in namespaces.items()]
    path = f"{PATH}/{quota.name}{CLUSTER_MANAGED_SUFFIX}/status"
    body = {"status": {"total": total, "namespaces": parts}}
    code, answer = system.plane.request("PATCH", path, body, MERGE_PATCH)
    assert code == 200, answer


def ready(quota):
    conditions = quota.read().get("status", {}).get("conditions") or []
    return next((each for each in conditions if each["type"] == "Ready"), {})


def create(system, namespace, name, hard):
    body = custom(ACRQ, name, {"quota": {"hard": hard}, "selector": selector(namespace)})
    return system.request("POST", f"{cluster_path(ACRQ)}?dryRun=All", body)


# ------------------------------------------------------------------ with the kind


def test_a_managed_object_has_the_limits_until_nothing_is_left_to_it(openshift, place):
    """As E-MIR-01 to E-MIR-04 for a ResourceQuota."""
    with openshift.cluster_quota(
        {"hard": {"pods": "5", **DELEGATED}}, selector(place.name)
    ) as wide:
        wait_managed(openshift, wide, DELEGATED)
        made = managed(openshift, wide)
        assert made["spec"]["selector"] == selector(place.name)
        assert made["metadata"]["labels"] == {"aaq.kubevirt.io": "true"}
        assert made["metadata"]["ownerReferences"][0]["uid"] == wide.read()["metadata"]["uid"]

        wide.change(quota={"hard": dict.fromkeys(DELEGATED) | {"services": "15"}})
        wait_managed(openshift, wide, {"services": "15"})
        wide.change(quota={"hard": {"services": None}})
        wait_managed(openshift, wide, None)
        wide.change(quota={"hard": {"services": "15"}})
        wait_managed(openshift, wide, {"services": "15"})
    wait_managed(openshift, wide, None)


def test_the_status_has_what_openshift_counts(openshift, place):
    hard = {"services": "10"}
    with openshift.cluster_quota({"hard": {"pods": "5", **hard}}, selector(place.name)) as wide:
        wait_managed(openshift, wide, hard)
        until_sync(lambda: ready(wide).get("reason") == "NotEnforced", wide.read)
        count(openshift, wide, hard, {place.name: {"services": "3"}})
        until_sync(lambda: ready(wide).get("status") == "True", wide.read)
        status = wide.read()["status"]

        assert status["total"]["used"] == {"pods": "0", "services": "3"}
        assert wide.namespaces()[place.name]["used"] == {"pods": "0", "services": "3"}
        until_sync(
            lambda: (
                (place.find(AACRQ, wide.name) or {}).get("status", {}).get("total")
                == status["total"]
            ),
            "the copy shows it",
        )


def test_only_the_controller_and_editors_of_the_quota_change_a_managed_object(openshift, place):
    with openshift.cluster_quota({"hard": {"services": "10"}}, selector(place.name)) as wide:
        wait_managed(openshift, wide, {"services": "10"})
        target = f"{PATH}/{wide.name}{CLUSTER_MANAGED_SUFFIX}"
        more = {"spec": {"quota": {"hard": {"services": "99"}}}}
        grant(openshift)

        code, answer = ask(openshift, KEEPER, "PATCH", target, more)
        assert (code, MAY_NOT_WRITE_CLUSTER_MANAGED in answer["message"]) == (403, True), answer
        code, answer = ask(openshift, KEEPER, "DELETE", target)
        assert (code, MAY_NOT_WRITE_CLUSTER_MANAGED in answer["message"]) == (403, True), answer

        # An administrator may, and the controller puts it right.
        assert ask(openshift, "", "PATCH", target, more)[0] == 200
        wait_managed(openshift, wide, {"services": "10"})
        assert ask(openshift, "", "DELETE", target)[0] == 200
        wait_managed(openshift, wide, {"services": "10"})


def test_the_accounts_write_no_other_object_of_the_kind(openshift):
    body = {
        "apiVersion": "quota.openshift.io/v1",
        "kind": "ClusterResourceQuota",
        "metadata": {"name": "theirs"},
        "spec": {"quota": {"hard": {"services": "1"}}, "selector": {}},
    }
    accounts = f"system:serviceaccount:{openshift.home}:aaq-"
    written = ask(openshift, f"{accounts}controller", "POST", PATH, body)
    real = ask(openshift, f"{accounts}server", "POST", PATH, body)
    trial = ask(openshift, f"{accounts}server", "POST", f"{PATH}?dryRun=All", body)

    assert (written[0], ONLY_MANAGED in written[1]["message"]) == (403, True), written
    assert (real[0], ONLY_DRY_RUN in real[1]["message"]) == (403, True), real
    assert trial[0] == 201, trial


def ask(system, user, method, path, body=None):
    headers = dict(MERGE_PATCH) if method == "PATCH" else {}
    if user:
        headers["Impersonate-User"] = user
    code, answer = system.plane.request(method, path, body, headers)
    return code, json.loads(answer)


def grant(system):
    rule = "--resource=clusterresourcequotas.quota.openshift.io"
    role = system.kubectl("create", "clusterrole", KEEPER, "--verb=patch,delete,get", rule)
    assert role.code == 0 or "already exists" in role.err
    bound = system.kubectl(
        "create", "clusterrolebinding", KEEPER, f"--clusterrole={KEEPER}", f"--user={KEEPER}"
    )
    assert bound.code == 0 or "already exists" in bound.err


# ------------------------------------------------------------------ the kind goes and comes


def test_the_kind_may_go_and_come(openshift, place):
    """The last test of the module: the kind goes."""
    hard = {"services": "10"}
    with openshift.cluster_quota({"hard": {"pods": "5", **hard}}, selector(place.name)) as wide:
        wait_managed(openshift, wide, hard)
        openshift.run("delete", "crd", NAME)
        until_sync(lambda: ready(wide).get("reason") == "Invalid", wide.read)
        assert (
            "operator cannot handle non scheduable resources :[services]"
            in (ready(wide)["message"])
        )
        code, answer = create(openshift, place.name, "refused", hard)
        assert code == 403, answer
        assert "without clusterResourceQuota support" in answer["message"]

        install(openshift)
        wait_managed(openshift, wide, hard)
        until_sync(lambda: ready(wide).get("reason") == "NotEnforced", wide.read)
        code, answer = create(openshift, place.name, "allowed", hard)
        assert code == 201, answer
