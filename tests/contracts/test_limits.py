"""LimitRanges and ResourceQuotas: what they set in pods, and what they refuse in which words."""

import json

import pytest

from bursar.app.cluster.kinds import LIMIT_RANGES, PODS, RESOURCE_QUOTAS
from bursar.app.cluster.ports import ForbiddenError, Key, Patch, PatchKind


@pytest.fixture
async def space(cluster) -> str:
    return await cluster.namespace(for_pods=True)


async def create_pod(cluster, space, name="p", **resources) -> dict:
    container = {"name": "c", "image": "i", "resources": resources}
    spec = {"containers": [container], "schedulerName": "nobody"}
    body = {"metadata": {"name": name}, "spec": spec}
    return json.loads(await cluster.port.create(PODS, body, namespace=space))


async def refusal(cluster, space, **resources) -> str:
    with pytest.raises(ForbiddenError) as refused:
        await create_pod(cluster, space, "refused", **resources)
    return refused.value.message


async def limit(cluster, space, **item) -> None:
    body = {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container", **item}]}}
    await cluster.port.create(LIMIT_RANGES, body, namespace=space)


async def restrict(cluster, space, **hard: str) -> None:
    """A quota, with the status that a controller writes."""
    named = {name.replace("_", "."): amount for name, amount in hard.items()}
    body = {"metadata": {"name": "q"}, "spec": {"hard": named}}
    await cluster.port.create(RESOURCE_QUOTAS, body, namespace=space)
    status = {"status": {"hard": named, "used": dict.fromkeys(named, "0")}}
    await cluster.port.patch(
        RESOURCE_QUOTAS,
        Key(space, "q"),
        Patch(kind=PatchKind.MERGE, body=status),
        subresource="status",
    )


async def test_a_limit_range_fills_in_what_a_container_does_not_state(cluster, space):
    await limit(cluster, space, default={"cpu": "2"}, defaultRequest={"cpu": "1", "memory": "1Gi"})

    [empty] = (await create_pod(cluster, space, "empty"))["spec"]["containers"]
    stated = await create_pod(cluster, space, "stated", limits={"cpu": "3"})

    assert empty["resources"] == {
        "requests": {"cpu": "1", "memory": "1Gi"},
        "limits": {"cpu": "2"},
    }
    assert stated["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "3", "memory": "1Gi"},
        "limits": {"cpu": "3"},
    }


async def test_a_pod_outside_a_limit_range_is_refused(cluster, space):
    await limit(cluster, space, max={"cpu": "2"}, min={"cpu": "500m"})

    assert await refusal(cluster, space, limits={"cpu": "3"}) == (
        'pods "refused" is forbidden: maximum cpu usage per Container is 2, but limit is 3'
    )
    assert await refusal(cluster, space, requests={"cpu": "100m"}, limits={"cpu": "1"}) == (
        'pods "refused" is forbidden: minimum cpu usage per Container is 500m, but request is 100m'
    )


async def test_a_pod_that_exceeds_a_resource_quota_is_refused(cluster, space):
    await restrict(cluster, space, requests_cpu="1500m", pods="5")
    await create_pod(cluster, space, "first", requests={"cpu": "1"})

    used = (await cluster.read(RESOURCE_QUOTAS, Key(space, "q")))["status"]["used"]
    assert used == {"pods": "1", "requests.cpu": "1"}
    assert await refusal(cluster, space, requests={"cpu": "600m"}) == (
        'pods "refused" is forbidden: exceeded quota: q, requested: requests.cpu=600m, '
        "used: requests.cpu=1, limited: requests.cpu=1500m"
    )
    await create_pod(cluster, space, "second", requests={"cpu": "500m"})


async def test_a_quota_of_cpu_wants_every_container_to_state_it(cluster, space):
    await restrict(cluster, space, requests_cpu="4", limits_memory="4Gi")

    assert await refusal(cluster, space) == (
        'pods "refused" is forbidden: failed quota: q: must specify limits.memory for: c; '
        "requests.cpu for: c"
    )


async def test_a_dry_run_takes_nothing_from_a_quota(cluster, space):
    await restrict(cluster, space, pods="1")
    body = {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}], "schedulerName": "nobody"},
    }
    await cluster.port.create(PODS, body, namespace=space, is_dry_run=True)

    await create_pod(cluster, space)

    assert "exceeded quota: q, requested: pods=1, used: pods=1" in await refusal(cluster, space)
