"""A counter that depends on a kind of object: the kind is absent, appears, changes and goes."""

import asyncio
import json
from dataclasses import replace
from random import Random

from bursar.adapters.memory.store import MemoryCluster
from bursar.app.cluster.kinds import CRDS
from bursar.app.cluster.ports import Key
from bursar.app.cluster.time_limit import end
from bursar.app.counting.feeds import WatchedKind
from bursar.app.counting.kind_feed import PROBE_SECONDS
from bursar.core.counting.kind_state import KindState
from bursar.core.quota.ledger import PodKey
from support.builders.quota_books import a_row
from support.counting.plan_counter import DEFINITION, PLANS
from support.virtual_time import MachineClock, in_virtual_time


class Told:
    """Writes down what a counter is told, and names a pod to be counted again each time."""

    def __init__(self) -> None:
        self.states: list[KindState] = []
        self.plans: set[str] = set()
        self.recounted: list[PodKey] = []
        self.kind = WatchedKind(
            resource=PLANS,
            decode=lambda body: json.loads(body)["metadata"]["name"],
            see=self.see,
            lose=self.lose,
            set_state=self.set_state,
        )

    def see(self, plan):
        self.plans.add(plan)
        return [a_row(f"a/{plan}")]

    def lose(self, plan):
        self.plans.discard(plan)
        return [a_row(f"a/{plan}")]

    def set_state(self, state):
        self.states.append(state)
        if state is not KindState.SYNCED:
            self.plans.clear()
        return []


def a_plan(name):
    return {
        "apiVersion": "example.com/v1",
        "kind": "Plan",
        "metadata": {"name": name, "namespace": "default"},
    }


@in_virtual_time
async def test_a_kind_is_watched_while_it_is_installed():
    clock, told = MachineClock(), Told()
    cluster = MemoryCluster(clock, source=Random(1))  # noqa: S311 - a seed
    feed = told.kind.feed(cluster, clock, Random(2))  # noqa: S311 - likewise
    task = asyncio.create_task(feed.run(told.recounted.extend))
    await clock.sleep(1)
    assert told.states == [KindState.SYNCING, KindState.ABSENT]

    await cluster.create(CRDS, DEFINITION)
    await clock.sleep(2 * PROBE_SECONDS)
    assert told.states[-1] is KindState.SYNCED

    await cluster.create(PLANS, a_plan("gold"), namespace="default")
    await cluster.create(PLANS, a_plan("silver"), namespace="default")
    await cluster.delete(PLANS, Key("default", "gold"))
    await clock.sleep(1)
    assert told.plans == {"silver"}
    assert set(told.recounted) == {PodKey("a", "gold"), PodKey("a", "silver")}

    await cluster.delete(CRDS, Key("", "plans.example.com"))
    await clock.sleep(20 * PROBE_SECONDS)
    assert (told.states[-1], told.plans) == (KindState.ABSENT, set())
    await end(task)


@in_virtual_time()
async def test_a_watch_that_fails_is_logged_with_its_cause_and_begins_again(caplog):
    clock, told = MachineClock(), Told()
    cluster = MemoryCluster(clock, source=Random(1))  # noqa: S311 - repeatable
    await cluster.create(CRDS, DEFINITION)
    await cluster.create(PLANS, a_plan("one"), namespace="default")
    broken = replace(told.kind, see=lambda plan: [told.recounted[plan]])
    watching = asyncio.create_task(broken.feed(cluster, clock, Random(2)).run(lambda _: None))  # noqa: S311
    await asyncio.sleep(3 * PROBE_SECONDS)
    await end(watching)

    assert told.states[:2] == [KindState.SYNCING] * 2
    assert {each.message for each in caplog.records} == {"watching a kind failed; starting over"}
    assert isinstance(caplog.records[0].fields["error"], TypeError)


def test_objects_of_files_are_loaded_at_once():
    told = Told()

    told.kind.load([json.dumps(a_plan("gold")).encode()])

    assert (told.plans, told.states) == ({"gold"}, [KindState.SYNCED])
    told.kind.mark_absent()
    assert told.states[-1] is KindState.ABSENT
