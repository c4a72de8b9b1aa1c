"""AAQ's own tests of what it keeps beside its quotas (E-MIR), on a real cluster."""

import pytest

from support.builders.pods import listed
from support.quota.installed_aaq import AACRQ, ARQ
from support.until import until_sync

MANAGED = "test-quota-non-schedulable-resources-managed-rq-x"
DELEGATED = listed(
    "services=10 services.nodeports=1 services.loadbalancers=1 replicationcontrollers=10"
    " configmaps=10 secrets=10 persistentvolumeclaims=10 requests.storage=10Gi"
)
RQ = "resourcequotas"
NOT_VITAL = {"scopeName": "PriorityClass", "operator": "NotIn", "values": ["vital"]}


def managed_limits(place):
    """As far as Kubernetes has taken notice of them."""
    found = place.find(RQ, MANAGED)
    return None if found is None else found.get("status", {}).get("hard")


def wait_limits(place, hard):
    until_sync(lambda: managed_limits(place) == hard, lambda: managed_limits(place))


# ------------------------------------------------------------------ managed quotas


def test_e_mir_01_what_pods_do_not_use_is_left_to_a_resource_quota(place):
    place.quota({"pods": "5", **DELEGATED})

    wait_limits(place, DELEGATED)


def test_e_mir_02_it_goes_when_nothing_is_left_for_it(place):
    place.quota(listed("pods=5 services=10"))
    wait_limits(place, {"services": "10"})

    removal = [{"op": "remove", "path": "/spec/hard/services"}]
    assert place.patch(ARQ, "test-quota", removal, "--type=json").code == 0

    wait_limits(place, None)


def test_e_mir_03_it_goes_with_its_quota(place):
    place.quota(listed("pods=5 services=10"))
    wait_limits(place, {"services": "10"})

    place.delete(ARQ, "test-quota")

    wait_limits(place, None)


def test_e_mir_04_it_follows_the_limits(place):
    place.quota(listed("pods=5 services=10"))
    wait_limits(place, {"services": "10"})

    place.limit("services=15")

    wait_limits(place, {"services": "15"})


# ------------------------------------------------------------------ applied quotas


def selector(*namespaces):
    names = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": [*namespaces]}
    excluded = {"key": "do.not/include", "operator": "DoesNotExist"}
    return {"labels": {"matchExpressions": [names, excluded]}}


def shown(system, namespace, name):
    path = f"/apis/aaq.kubevirt.io/v1alpha1/namespaces/{namespace}/{AACRQ}/{name}"
    code, found = system.request("GET", path)
    return found if code == 200 else None


def only_own(namespace, parts):
    """The usage of other namespaces is not shown."""
    return [each for each in parts if each["namespace"] == namespace]


def all_parts(_namespace, parts):
    return parts


def is_mirrored(system, quota, namespace, parts):
    """Spec and total to the letter, with scopes and selector, and the parts as `parts` has it."""
    original, copy = quota.read(), shown(system, namespace, quota.name)
    if copy is None or "status" not in original:
        return False
    return (
        copy["spec"] == original["spec"]
        and copy["status"]["total"] == original["status"]["total"]
        and copy["status"]["namespaces"] == parts(namespace, original["status"]["namespaces"])
    )


def wait_mirrored(system, quota, namespaces, parts):
    def found():
        return quota.read(), [shown(system, name, quota.name) for name in namespaces]

    until_sync(lambda: all(is_mirrored(system, quota, n, parts) for n in namespaces), found)


def check_mirrored(system, place, parts):
    """Make a quota with everything that a quota can say, and change each part of it."""
    quota = {
        "hard": listed("pods=5 requests.memory=1Gi"),
        "scopes": ["NotTerminating"],
        "scopeSelector": {"matchExpressions": [NOT_VITAL]},
    }
    both = (place.name, "default")
    with system.cluster_quota(quota, selector(*both)) as wide:
        wait_mirrored(system, wide, both, parts)
        assert len(wide.namespaces()) == len(both)

        place.admit("counted", "memory=1Mi")
        until_sync(lambda: wide.namespaces()[place.name]["used"]["pods"] == "1", wide.read)
        wait_mirrored(system, wide, both, parts)

        changes = (
            {"hard": listed("pods=7 requests.memory=2Gi")},
            {"scopes": ["NotTerminating", "NotBestEffort"]},
            {"scopeSelector": {"matchExpressions": [{**NOT_VITAL, "values": ["other"]}]}},
            {"scopes": None, "scopeSelector": None},
        )
        for change in changes:
            quota |= change
            wide.change(quota=quota)
            wait_mirrored(system, wide, both, parts)
            copied = shown(system, "default", wide.name)["spec"]["quota"]
            assert copied == {name: value for name, value in quota.items() if value is not None}


def test_e_mir_05_each_namespace_is_shown_its_cluster_wide_quotas(system, place):
    check_mirrored(system, place, only_own)


def test_e_mir_05_a_copy_that_was_deleted_or_rewritten_comes_back(system, place):
    """How soon it does is a test in virtual time: `app/test_quota_applied.py`."""
    with system.cluster_quota({"hard": {"pods": "5"}}, selector(place.name)) as wide:
        wait_mirrored(system, wide, (place.name,), only_own)
        for _ in range(2):
            place.delete(AACRQ, wide.name)
            wait_mirrored(system, wide, (place.name,), only_own)
            change = {"spec": {"quota": {"hard": {"pods": "500"}}}}
            assert place.patch(AACRQ, wide.name, change, "--type=merge").code == 0
            wait_mirrored(system, wide, (place.name,), only_own)


@pytest.mark.parametrize("system", [("--applied-quotas=all",)], indirect=True, ids=["all"])
def test_e_mir_05_in_aaqs_form_each_namespace_is_shown_the_use_of_all(system, place):
    check_mirrored(system, place, all_parts)


def test_e_mir_06_a_namespace_that_leaves_is_shown_it_no_longer(system, place):
    with system.cluster_quota({"hard": {"pods": "5"}}, selector(place.name, "default")) as wide:

        def holders():
            return {
                namespace
                for namespace in (place.name, "default")
                if shown(system, namespace, wide.name) is not None
            }

        until_sync(lambda: holders() == {place.name, "default"}, holders)
        place.label(**{"do.not/include": "true"})
        until_sync(lambda: holders() == {"default"}, holders)
        place.label(**{"do.not/include": None})
        until_sync(lambda: holders() == {place.name, "default"}, holders)
