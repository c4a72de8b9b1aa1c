"""Problems of annotations as events and log lines, in virtual time on a small cluster."""

import asyncio

import pytest

from bursar.app.cluster.events.recorder import Drop, EventRecorder
from bursar.app.cluster.kinds import EVENTS
from bursar.app.devices.counters import ProxyCounts
from bursar.app.devices.events import (
    BUDGET,
    LOG_BURST,
    LOG_REFILL_S,
    REMEMBERED_MAX,
    DeviceReason,
    PodEvents,
    ProblemLog,
    ProblemTracker,
    reason_of,
)
from bursar.app.names import AGENT
from bursar.core.devices.allocation import Holdings, Problem, ProblemKind
from support.cluster.small_cluster import Line, SmallCluster
from support.device_notation import gpu_pod
from support.virtual_time import MachineClock, in_virtual_time

UNREADABLE = Problem(kind=ProblemKind.UNREADABLE, source="koordinator", text="not JSON")
ELSEWHERE = Problem(kind=ProblemKind.NOT_ON_NODE, source="koordinator", text="no 'GPU-9' here")


class Agent:
    """Events at work, and the cluster that hears them."""

    def __init__(self):
        self.cluster, self.clock = SmallCluster(), MachineClock()
        self.recorder = EventRecorder(
            Line(self.cluster, self.clock),
            self.clock,
            reasons=DeviceReason,
            component=AGENT,
            instance="node-1",
            budget=BUDGET,
        )
        self.reporter = PodEvents(self.recorder)
        self.worker = asyncio.create_task(self.recorder.run())

    def events(self):
        return [body for (kind, _), body in self.cluster.objects.items() if kind == EVENTS]

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        self.worker.cancel()
        await asyncio.wait((self.worker,))


@in_virtual_time(on=Agent)
async def test_a_bad_annotation_becomes_an_event_on_its_pod(agent):
    agent.reporter.report(gpu_pod(uid="uid-of-web"), UNREADABLE)
    await agent.clock.sleep(30)
    (event,) = agent.events()

    assert event["reason"] == "DevicesUnreadable"
    assert event["note"] == "koordinator: not JSON"
    assert (event["type"], event["action"]) == ("Warning", "ShowDevices")
    assert event["regarding"]["name"] == "web"
    assert event["regarding"]["uid"] == "uid-of-web"
    assert event["reportingController"] == "bursar-agent"


@in_virtual_time(on=Agent)
async def test_events_name_no_pods_that_their_readers_may_not_see(agent):
    twice = Problem(
        kind=ProblemKind.CLAIMED_TWICE,
        source="koordinator",
        text="'GPU-1' is also held by secret/payroll-db-7 (100 %)",
        tenant_text="'GPU-1' is also held by a pod of another namespace",
    )
    lines: list[str] = []
    ProblemLog(lines.append, agent.clock, also=agent.reporter).report(gpu_pod(), twice)
    await agent.clock.sleep(30)
    (event,) = agent.events()

    assert event["note"] == "koordinator: 'GPU-1' is also held by a pod of another namespace"
    assert lines == [f"pod default/web: claimed-twice: koordinator: {twice.text}"]


@in_virtual_time(on=Agent)
async def test_a_flood_of_bad_pods_is_held_within_the_budget(agent):
    for number in range(1000):
        agent.reporter.report(gpu_pod(name=f"p{number}"), UNREADABLE)
    await agent.clock.sleep(30)

    assert len(agent.events()) <= BUDGET.burst + 31 * BUDGET.writes_per_second
    assert agent.recorder.dropped[Drop.QUEUE_FULL] == 1000 - BUDGET.queue_max


class Told:
    """A tracker of one pod, and what it reports at each look."""

    def __init__(self):
        self.reports = []
        self.tracker = ProblemTracker(self, ProxyCounts())

    def report(self, pod, problem):
        self.reports.append((pod.name, problem.text))

    def look(self, *texts):
        """The new problems of a pod that has these."""
        self.reports.clear()
        problems = tuple(
            Problem(kind=ProblemKind.UNREADABLE, source=f"s{number}", text=text)
            for number, text in enumerate(texts)
        )
        pod = gpu_pod()
        held = Holdings(namespace="default", name="web", problems=problems)
        self.tracker.update({pod.key: pod}, {pod.key: held}, ())
        assert {name for name, _ in self.reports} <= {"web"}
        return [text for _, text in self.reports]


def test_a_problem_that_stands_is_reported_once_however_many_others_come():
    told = Told()
    assert told.look("standing") == ["standing"]
    for number in range(3 * REMEMBERED_MAX):
        assert told.look("standing", f"new {number}") == [f"new {number}"]


def test_only_the_latest_problems_of_a_pod_are_remembered():
    told = Told()
    told.look("first")
    assert told.look("second") == ["second"]
    assert told.look("first") == []
    for number in range(REMEMBERED_MAX):
        told.look(f"new {number}")
    assert told.look("first") == ["first"]
    many = [f"standing {number}" for number in range(2 * REMEMBERED_MAX)]
    assert told.look(*many) == many
    assert told.look(*many) == []


@pytest.mark.parametrize("kind", ProblemKind)
def test_every_kind_of_problem_has_a_reason(kind):
    reason = reason_of(Problem(kind=kind, source="s", text="t"))

    expected = {
        ProblemKind.UNREADABLE: DeviceReason.UNREADABLE,
        ProblemKind.CLAIMED_TWICE: DeviceReason.CLAIMED_TWICE,
    }
    assert reason is expected.get(kind, DeviceReason.NOT_SHOWN)


@in_virtual_time
async def test_the_log_says_it_in_one_line_and_passes_it_on():
    lines, passed_on = [], []

    class Next:
        def report(self, pod, problem):
            passed_on.append((pod.name, problem))

    ProblemLog(lines.append, MachineClock(), also=Next()).report(gpu_pod(), ELSEWHERE)

    assert lines == ["pod default/web: not-on-node: koordinator: no 'GPU-9' here"]
    assert passed_on == [("web", ELSEWHERE)]


@in_virtual_time
async def test_the_log_is_not_filled_by_one_tenant_and_says_how_much_it_left_out():
    lines, clock = [], MachineClock()
    log = ProblemLog(lines.append, clock)
    for number in range(100):
        log.report(gpu_pod(name=f"p{number}"), UNREADABLE)
    await clock.sleep(LOG_REFILL_S)
    log.report(gpu_pod(name="last"), UNREADABLE)

    assert len(lines) == LOG_BURST + 1
    assert lines[-1].endswith(f"not JSON (and {100 - LOG_BURST} more)")
