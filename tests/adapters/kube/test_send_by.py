"""The latest time to send a write, even if the process was suspended in between."""

from dataclasses import replace

import pytest

from bursar.adapters.kube.transport import Limits
from bursar.app.cluster.kinds import CONFIG_MAPS
from bursar.app.cluster.ports import Key, Patch, PatchKind, UnavailableError
from support.cluster.access import HastyClock, PlainAccess, a_client
from support.faults.scripted_server import answer, failure, scripted

KEY = Key("default", "web")
CHANGE = Patch(kind=PatchKind.MERGE, body={"data": {}})
IN_A_SECOND = Limits(send_seconds_max=1)


class SleepyCredentials:
    """Time passes between the call and the sending, as if the process was suspended."""

    def __init__(self, clock: HastyClock, seconds: float) -> None:
        self._clock, self._seconds = clock, seconds

    async def headers(self) -> dict[str, str]:
        await self._clock.sleep(self._seconds)
        return {}

    def reject(self) -> None:
        pass


@pytest.mark.parametrize(("slept", "is_sent"), [(0.9, True), (1.1, False)])
async def test_a_body_is_sent_in_time_or_not_at_all(slept, is_sent):
    clock = HastyClock()
    async with scripted(answer(200, {})) as server:
        access = PlainAccess(server.url, credentials=SleepyCredentials(clock, slept))
        async with a_client(access, limits=IN_A_SECOND, clock=clock) as client:
            if is_sent:
                await client.patch(CONFIG_MAPS, KEY, CHANGE)
            else:
                with pytest.raises(UnavailableError):
                    await client.patch(CONFIG_MAPS, KEY, CHANGE)

        assert [each.method for each in server.received] == ["PATCH"] * is_sent


@pytest.mark.parametrize(("slept", "is_sent"), [(0.9, True), (1.1, False)])
async def test_a_patch_can_have_its_own_send_by(slept, is_sent):
    """A suspension before the call makes the patch as late as one after it."""
    clock = HastyClock()
    change = replace(CHANGE, send_by=clock.monotonic() + 1)
    await clock.sleep(slept)
    async with scripted(answer(200, {})) as server:
        async with a_client(PlainAccess(server.url), limits=IN_A_SECOND, clock=clock) as client:
            if is_sent:
                await client.patch(CONFIG_MAPS, KEY, change)
            else:
                with pytest.raises(UnavailableError, match="too late to be sent"):
                    await client.patch(CONFIG_MAPS, KEY, change)

        assert len(server.received) == is_sent


async def test_the_time_to_send_counts_from_the_first_attempt():
    clock = HastyClock()
    busy = failure(429, "TooManyRequests", Retry_After="2")
    async with scripted(busy, answer(200, {})) as server:
        async with a_client(PlainAccess(server.url), limits=IN_A_SECOND, clock=clock) as client:
            with pytest.raises(UnavailableError):
                await client.patch(CONFIG_MAPS, KEY, CHANGE)

        assert len(server.received) == 1


async def test_reads_have_no_latest_time_to_send():
    clock = HastyClock()
    async with scripted(answer(200, {})) as server:
        access = PlainAccess(server.url, credentials=SleepyCredentials(clock, 9))
        async with a_client(access, limits=IN_A_SECOND, clock=clock) as client:
            assert await client.get(CONFIG_MAPS, KEY) == b"{}"
