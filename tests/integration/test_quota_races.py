"""Many pods of many namespaces want the same room, on a real API server."""

import asyncio
import json

import pytest

from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.ports import Key, Query
from support.quota.controller_processes import Controllers, Lane, administering, watched
from support.until import until

NAMESPACES = 12
PODS_EACH = 4
LIMIT = 6


@pytest.fixture(scope="module")
def control_plane(quota_cluster):
    return quota_cluster


async def test_9_1_4_a_cluster_quota_of_six_lets_six_of_many_namespaces_go(control_plane, tmp_path):
    """AAQ released ten: its lock is per namespace, and the quota is not."""
    wide = Key("", "six")
    async with (
        administering(control_plane) as people,
        watched(people.client, all=Lane(LIMIT)) as turnstile,
    ):
        namespaces = [await people.namespace("race", team="six") for _ in range(NAMESPACES)]
        turnstile.assign("all", *namespaces)
        await people.cluster_quota(wide.name, {"pods": str(LIMIT)}, team="six")
        await asyncio.gather(*(people.pods(each, PODS_EACH) for each in namespaces))
        with Controllers(control_plane, tmp_path) as controllers:
            await until(lambda: turnstile.released == LIMIT, "six pods go")
            await people.settle()
            assert (turnstile.released, turnstile.waiting) == (6, 42), controllers.logs()
            await people.uses(wide, pods="6")

            await delete_released(people, namespaces, 2)
            await until(lambda: turnstile.waiting == 40, "two more go")
            await people.settle()

            assert (turnstile.released, turnstile.waiting) == (6, 40)
            assert turnstile.lanes["all"].most == LIMIT
            assert turnstile.excesses == []
            await people.uses(wide, pods="6")


async def delete_released(people, namespaces: list[str], count: int) -> None:
    for namespace in namespaces:
        for body in (await people.client.list(PODS, Query(namespace=namespace))).items:
            pod = json.loads(body)
            if count and "schedulingGates" not in pod["spec"]:
                await people.client.delete(PODS, Key(namespace, pod["metadata"]["name"]))
                count -= 1
