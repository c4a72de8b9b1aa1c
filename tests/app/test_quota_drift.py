"""The second look at the ledger: what differs for good is found, what is on its way is not."""

import asyncio
from datetime import datetime

from bursar.app.cluster.ports import Clock
from bursar.app.cluster.time_limit import end
from bursar.app.quota.drift import COUNT_SECONDS, PAUSE_PER_WORK, PAUSE_SECONDS, TURN, DriftCheck
from bursar.core.quota.names import Unit
from support.builders.quota_books import a_key
from support.quota.quota_loop import HOME, QuotaLoopScene, a_quota_loop
from support.virtual_time import in_virtual_time

NONE = {Unit.BYTES: "0", Unit.CORE: "0", Unit.COUNT: "0"}


def watch_of(scene: QuotaLoopScene) -> DriftCheck:
    return DriftCheck(scene.loop, scene.sources, scene.counter.count, scene.clock)


def largest(watch: DriftCheck) -> dict[Unit, str]:
    return {unit: str(amount) for unit, amount in watch.latest.largest.items()}


async def furnished(scene: QuotaLoopScene) -> None:
    await scene.set_quota("q", requests_cpu="4", pods="9")
    for number in range(3):
        await scene.create_pod(f"web-{number}", "500m")
    await scene.rest()


@in_virtual_time(on=a_quota_loop)
async def test_a_ledger_that_is_right_does_not_drift(scene):
    await furnished(scene)
    watch = watch_of(scene)
    assert watch.latest is None

    await watch.check()

    assert scene.books.ledger.pod_count == 3
    assert (watch.latest.accounts, largest(watch)) == (0, NONE)


@in_virtual_time(on=a_quota_loop)
async def test_a_wrong_account_is_found_with_the_amount_by_which_it_is_wrong(scene):
    await furnished(scene)
    watch = watch_of(scene)
    covered = scene.books.coverage.quota(a_key(f"{HOME}/q"))
    covered.accounts["requests.cpu"].charged += 250_000_000
    covered.accounts["pods"].charged -= 2_000_000_000

    await watch.check()

    assert watch.latest.accounts == 2
    assert largest(watch) == {**NONE, Unit.CORE: "250m", Unit.COUNT: "2"}


@in_virtual_time(on=a_quota_loop)
async def test_what_is_gone_at_the_next_look_was_only_on_its_way(scene):
    await furnished(scene)
    watch = watch_of(scene)
    account = scene.books.coverage.quota(a_key(f"{HOME}/q")).accounts["pods"]
    account.charged += 1

    async def arrive() -> None:
        await scene.clock.sleep(COUNT_SECONDS / 2)
        account.charged -= 1

    arriving = asyncio.create_task(arrive())
    await watch.check()
    await arriving

    assert (watch.latest.accounts, watch.counts) == (0, 2)


@in_virtual_time(on=a_quota_loop)
async def test_other_tasks_run_while_pods_are_counted(scene):
    """A tenant decides how many pods there are, and how many quotas count each of them."""
    for number in range(10):
        await scene.set_quota(f"q{number}", pods="1000")
    for number in range(4 * TURN):
        await scene.create_pod(f"web-{number}", f"{number + 1}m")
    await scene.rest()
    watch, turns = watch_of(scene), 0
    checking = asyncio.create_task(watch.check())
    while not checking.done():
        turns += 1
        await asyncio.sleep(0)

    assert turns > 10 + 4
    assert (watch.latest.accounts, watch.counts) == (0, 1)


class Laborious:
    """A clock by which everything takes two seconds; it writes down how long it slept."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._asked = clock, 0
        self.sleeps: list[float] = []

    def now(self) -> datetime:
        return self._clock.now()

    def monotonic(self) -> float:
        self._asked += 1
        return 2.0 * self._asked

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        await self._clock.sleep(seconds)


@in_virtual_time(on=a_quota_loop)
async def test_counting_takes_one_hundredth_of_the_time_at_most(scene):
    await furnished(scene)
    clock = Laborious(scene.clock)
    watch = DriftCheck(scene.loop, scene.sources, scene.counter.count, clock)
    running = asyncio.create_task(watch.run())
    await scene.rest(PAUSE_SECONDS + 450)
    await end(running)

    assert clock.sleeps == [PAUSE_SECONDS] + [2.0 * PAUSE_PER_WORK] * 3
    assert watch.counts == 3
    assert watch.latest.count_seconds == 2.0


@in_virtual_time(on=lambda: a_quota_loop(is_running=False))
async def test_books_that_are_not_open_are_not_compared(scene):
    watch = watch_of(scene)
    running = asyncio.create_task(watch.run())
    await scene.rest(3 * PAUSE_SECONDS)
    await end(running)

    assert (watch.counts, watch.latest) == (0, None)
