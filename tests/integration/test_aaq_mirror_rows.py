"""AAQ's own tests of what it keeps beside its quotas (E-MIR), on a real cluster."""

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


def is_mirrored(system, quota, namespace):
    """Limits and total to the letter, and of the parts its own: others' are not its business."""
    original, copy = quota.read(), shown(system, namespace, quota.name)
    if copy is None or "status" not in original:
        return False
    own = [each for each in original["status"]["namespaces"] if each["namespace"] == namespace]
    return (
        copy["spec"] == original["spec"]
        and copy["status"]["total"] == original["status"]["total"]
        and copy["status"]["namespaces"] == own
    )


def wait_mirrored(system, quota, namespaces):
    until_sync(lambda: all(is_mirrored(system, quota, name) for name in namespaces), quota.read)


def test_e_mir_05_each_namespace_is_shown_its_cluster_wide_quotas(system, place):
    quota = {
        "hard": listed("pods=5 requests.memory=1Gi"),
        "scopes": ["NotTerminating"],
        "scopeSelector": {"matchExpressions": [NOT_VITAL]},
    }
    both = (place.name, "default")
    with system.cluster_quota(quota, selector(*both)) as wide:
        wait_mirrored(system, wide, both)

        wide.change(quota={**quota, "hard": listed("pods=7 requests.memory=2Gi")})

        wait_mirrored(system, wide, both)
        assert shown(system, "default", wide.name)["spec"]["quota"]["hard"]["pods"] == "7"


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
