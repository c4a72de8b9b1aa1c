"""A leader that keeps certificates is paused, and another takes over before they expire."""

from collections.abc import Iterator

import pytest

from controlplane import ControlPlane
from support.processes.certified import Installation, a_load, installed, loaded
from support.until import until

LIFETIMES = ("--certificate-lifetime=90s", "--ca-lifetime=270s")
"""A pair is due 30 s before it expires. A successor needs its turn and the Lease in that time."""
PATIENCE_LONG = 400


@pytest.fixture(scope="module")
def control_plane(quota_cluster) -> ControlPlane:
    return quota_cluster


@pytest.fixture
def installation(control_plane, tmp_path) -> Iterator[Installation]:
    with installed(control_plane, tmp_path, LIFETIMES) as found:
        yield found


async def test_a_leader_that_was_paused_does_not_fight_its_successor(installation, people):
    load = await a_load(installation, people, asks_leader=False)
    load.servers = installation.webhooks
    holder = await people.holder()
    paused = next(
        each.replicas[0] for each in installation.controllers if each.leader(holder) is not None
    )
    async with loaded(load, installation.plane):
        paused.pause()
        try:

            async def is_succeeded() -> bool:
                found = await people.holder()
                return bool(found) and found != holder

            await until(is_succeeded, installation.logs)
        finally:
            paused.resume()
        seen = len(load.pairs)
        await until(lambda: len(load.pairs) > seen, installation.logs, PATIENCE_LONG)

    assert load.failures == [], installation.logs()
