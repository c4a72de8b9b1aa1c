"""A bound on waiting pods on a real cluster: the leader counts, and the API server refuses."""

import json
from pathlib import Path

import pytest

from bursar.app.admission.pods import queue_is_full
from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.ports import ClusterError, ForbiddenError, Key, Query
from bursar.app.quota.release.force_release import stop_gating
from bursar.core.quota.quota import GATE
from controlplane import ControlPlane
from support.install.printed import printed
from support.processes.kubectl import try_kubectl
from support.quota.controller_processes import (
    SHORT_TERMS,
    Administrator,
    Controllers,
    administering,
    gated_pod,
)
from support.until import until

MOST = 5


@pytest.fixture(scope="module")
def control_plane(quota_cluster):
    return quota_cluster


@pytest.fixture(params=["policies", "webhooks"])
def limited(control_plane: ControlPlane, request):
    """The policy, as it is printed for each way of gating; pods bring their gate themselves."""
    parts = printed("rbac", request.param)
    policy = "\n---\n".join(
        each for each in parts.split("\n---\n") if "limit-waiting-pods.bursar.io" in each
    )
    assert policy.count("kind: ") >= 2
    written = printed("rbac") + "\n---\n" + policy
    assert try_kubectl(control_plane, "apply", "-f", "-", stdin=written).code == 0
    try:
        yield control_plane
    finally:
        try_kubectl(control_plane, "delete", "--ignore-not-found", "-f", "-", stdin=policy)


async def refusal(people: Administrator, namespace: str, *gates: str) -> ClusterError | None:
    """Why another pod is refused; None if it is not. Nothing is stored."""
    try:
        await people.client.create(
            PODS, gated_pod("probe", *gates), namespace=namespace, is_dry_run=True
        )
    except ClusterError as error:
        return error
    return None


async def empty(people: Administrator, namespace: str) -> int:
    """Delete the pods; returns how many there were."""
    page = await people.client.list(PODS, Query(namespace=namespace))
    for body in page.items:
        await people.client.delete(PODS, Key(namespace, json.loads(body)["metadata"]["name"]))
    return len(page.items)


async def test_no_more_pods_wait_in_a_namespace_than_may(limited, tmp_path: Path):
    options = (*SHORT_TERMS, f"--waiting-pods-max={MOST}")
    with Controllers(limited, tmp_path, *options) as controllers:
        async with administering(limited) as people:
            crowded, other = await people.namespace("crowded"), await people.namespace("other")
            await people.quota(Key(crowded, "q"), {"pods": "1"})
            await people.pods(crowded, MOST + 1)

            async def is_refused() -> bool:
                return await refusal(people, crowded) is not None

            await until(is_refused, lambda: f"the namespace is full\n{controllers.logs()}")
            for gates in ((GATE,), (GATE, "example.com/own")):
                found = await refusal(people, crowded, *gates)
                assert isinstance(found, ForbiddenError)
                assert queue_is_full(crowded, str(MOST)) in str(found)
            assert await refusal(people, other) is None

            assert await empty(people, crowded) == MOST + 1

            async def is_open() -> bool:
                return await refusal(people, crowded) is None

            await until(is_open, lambda: f"the namespace is open again\n{controllers.logs()}")


async def test_a_stop_of_gating_ends_the_refusals(limited, tmp_path: Path):
    options = (*SHORT_TERMS, f"--waiting-pods-max={MOST}")
    async with administering(limited) as people:
        crowded = await people.namespace("crowded")
        await people.quota(Key(crowded, "q"), {"pods": "1"})
        with Controllers(limited, tmp_path, *options) as controllers:
            await people.pods(crowded, MOST + 1)

            async def is_refused() -> bool:
                return await refusal(people, crowded) is not None

            await until(is_refused, lambda: f"the namespace is full\n{controllers.logs()}")
        # No leader is left to say that the namespace is open.
        await stop_gating(people.client)

        async def is_open() -> bool:
            return await refusal(people, crowded) is None

        await until(is_open, "the policy is gone")
        await empty(people, crowded)
