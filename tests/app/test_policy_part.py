"""Counting by policies on the embedded cluster: policies come, change and go; statuses follow."""

import asyncio
import json
from random import Random

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.files.crds import crd_documents
from bursar.adapters.memory.store import MemoryCluster
from bursar.app.cluster.kinds import CRDS, NAMESPACES
from bursar.app.cluster.ports import Key
from bursar.app.cluster.time_limit import end
from bursar.app.counting.kind_feed import PROBE_SECONDS
from bursar.app.counting.kinds import COUNTING_POLICIES
from bursar.app.counting.policies import BATCH, REPORT_SECONDS, policy_part
from bursar.core.counting.counter import Counted
from bursar.core.counting.counters import Counters
from bursar.core.counting.policy import NOW_STEP_S
from bursar.core.quota.ledger import PodKey
from support.cel.recorded import LANGUAGE
from support.counting.policies import a_row
from support.virtual_time import MachineClock, in_virtual_time

DEFINITION = next(
    each for each in crd_documents() if each["metadata"]["name"] == "countingpolicies.bursar.io"
)


def a_policy(name, **spec):
    return {
        "apiVersion": "bursar.io/v1alpha1",
        "kind": "CountingPolicy",
        "metadata": {"name": name},
        "spec": {"match": "true", "charges": {"instances/notebook": "1"}, **spec},
    }


class Running:
    """The part with its feeds, and the pods that it had counted again."""

    def __init__(self):
        self.clock = MachineClock()
        self.cluster = MemoryCluster(self.clock, source=Random(1))  # noqa: S311 - a seed
        self.part = policy_part(LANGUAGE, self.clock, self.cluster)
        self.recounted = []
        self.tasks = []

    def recount(self, pods):
        self.recounted.append(list(pods))

    async def __aenter__(self):
        source = Random(2)  # noqa: S311 - a seed
        feeds = [each.feed(self.cluster, self.clock, source) for each in self.part.kinds]
        for feed in (*feeds, *self.part.feeds):
            self.tasks.append(asyncio.create_task(feed.run(self.recount)))
        return self

    async def __aexit__(self, *_):
        await end(*self.tasks)

    async def status(self, name):
        body = await self.cluster.get(COUNTING_POLICIES, Key("", name))
        return json.loads(body.body if hasattr(body, "body") else body).get("status")


@in_virtual_time
async def test_policies_are_followed_and_report_in_their_status():
    async with Running() as running:
        counter, clock, cluster = running.part.counter, running.clock, running.cluster
        row = a_row()
        counter.see_pod(row)
        await cluster.create(
            NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml"}}
        )
        await clock.sleep(1)
        assert counter.count(row) is None

        await cluster.create(CRDS, DEFINITION)
        await clock.sleep(2 * PROBE_SECONDS)
        await cluster.create(COUNTING_POLICIES, a_policy("p"))
        await clock.sleep(1)
        assert isinstance(counter.count(row), Counted)
        assert running.recounted[-1] == [PodKey("ml", "nb-0")]

        await clock.sleep(2 * REPORT_SECONDS)
        status = await running.status("p")
        assert (status["matchedPods"], status["charges"]) == (1, {"instances/notebook": "1"})
        assert status["namespaces"][0]["namespace"] == "ml"
        (ready,) = status["conditions"]
        assert (ready["status"], ready["reason"]) == ("True", "Enforce")

        counter.lose_pod(PodKey("ml", "nb-0"))
        await clock.sleep(2 * REPORT_SECONDS)
        status = await running.status("p")
        assert (status["matchedPods"], status["charges"], status["namespaces"]) == (0, {}, [])
        counter.see_pod(row)

        await cluster.create(COUNTING_POLICIES, a_policy("bad", match="object."))
        await clock.sleep(2 * REPORT_SECONDS)
        (ready,) = (await running.status("bad"))["conditions"]
        assert (ready["status"], ready["reason"]) == ("False", "Invalid")
        assert ready["message"].startswith("spec.match: 1:8: ")
        assert (await running.status("p"))["conditions"][0]["reason"] == "Enforce"

        await cluster.delete(COUNTING_POLICIES, Key("", "p"))
        await cluster.delete(COUNTING_POLICIES, Key("", "bad"))
        await clock.sleep(1)
        assert counter.count(row) is None


@in_virtual_time
async def test_shadow_policy_shows_what_pods_would_cost_beside_what_they_cost():
    async with Running() as running:
        counters, clock = Counters((running.part.counter,)), running.clock
        await running.cluster.create(CRDS, DEFINITION)
        await running.cluster.create(COUNTING_POLICIES, a_policy("try", mode="Shadow"))
        await clock.sleep(3 * PROBE_SECONDS)
        counters.see_pod(a_row())
        counters.count(a_row())
        await clock.sleep(2 * REPORT_SECONDS)

        status = await running.status("try")
        assert status["charges"] == {"instances/notebook": "1"}
        assert status["presentCharges"]["requests.cpu"] == "500m"
        assert status["namespaces"][0]["presentCharges"] == status["presentCharges"]


@in_virtual_time
async def test_pods_are_counted_again_in_batches_when_the_quarter_of_an_hour_ends():
    async with Running() as running:
        counter, clock = running.part.counter, running.clock
        await running.cluster.create(CRDS, DEFINITION)
        expression = {"x": "now.getMinutes()"}
        await running.cluster.create(COUNTING_POLICIES, a_policy("p", charges=expression))
        await clock.sleep(3 * PROBE_SECONDS)
        for at in range(BATCH + 1):
            counter.see_pod(a_row(f"pod-{at}"))
        running.recounted.clear()
        await clock.sleep(NOW_STEP_S)
        assert [len(each) for each in running.recounted] == [BATCH, 1]


@in_virtual_time
async def test_status_that_cannot_be_written_is_tried_again():
    async with Running() as running:
        counter, clock = running.part.counter, running.clock
        kind = running.part.kinds[1]
        # The policy is known, but the cluster has no such kind.
        kind.load([json.dumps(a_policy("p")).encode()])
        await clock.sleep(2 * REPORT_SECONDS)
        await running.cluster.create(CRDS, DEFINITION)
        await running.cluster.create(COUNTING_POLICIES, a_policy("p"))
        await clock.sleep(4 * PROBE_SECONDS)
        assert (await running.status("p"))["matchedPods"] == 0
        assert counter.find("p") is not None


def test_without_a_writer_nothing_is_written():
    part = policy_part(LANGUAGE, SYSTEM_CLOCK)
    assert len(part.feeds) == 1
