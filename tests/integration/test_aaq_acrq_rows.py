"""AAQ's own tests of cluster-wide quotas (E-ACRQ), on a real cluster."""

from support.builders.pods import listed
from support.until import until_sync

EXCLUDED = {"key": "do.not/include", "operator": "DoesNotExist"}


def named(*namespaces, also=()):
    """The selector of AAQ's tests: some namespaces by their names."""
    wanted = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": [*namespaces]}
    return {"labels": {"matchExpressions": [wanted, *also]}}


def limited(hard, **fields):
    return {"hard": listed(hard), **fields}


def test_e_acrq_01_a_namespace_that_leaves_takes_its_waiting_pods_along(system, place):
    quota = limited("requests.memory=1Mi", scopes=["NotTerminating"])
    with system.cluster_quota(quota, named(place.name, "default", also=[EXCLUDED])) as wide:
        until_sync(lambda: {*wide.namespaces()} == {place.name, "default"}, wide.read)
        place.pod("p", "memory=200Mi")
        place.check_stays_gated("p")

        assert {*wide.namespaces()} == {place.name, "default"}

        place.label(**{"do.not/include": "true"})
        place.wait_released("p")
        until_sync(lambda: {*wide.namespaces()} == {"default"}, wide.read)


def test_e_acrq_02_a_pod_goes_when_the_smaller_of_two_quotas_does(system, place):
    with (
        system.cluster_quota(limited("requests.memory=100Mi"), named(place.name)) as small,
        system.cluster_quota(limited("requests.memory=300Mi"), named(place.name)) as large,
    ):
        for quota in (small, large):
            until_sync(lambda quota=quota: {*quota.namespaces()} == {place.name}, quota.read)
        place.pod("p", "memory=200Mi")
        place.check_stays_gated("p", note=f"exceeded quota: {small.name}")
        small.delete()
        place.wait_released("p")

        until_sync(
            lambda: large.read()["status"]["total"]["used"] == {"requests.memory": "200Mi"},
            large.read,
        )
