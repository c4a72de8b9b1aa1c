"""Events on a small cluster in virtual time: counted, combined, within budget, never in the way."""

import asyncio
from collections.abc import Awaitable, Callable
from enum import Enum

import pytest

from bursar.app.cluster.events.budget import Budget
from bursar.app.cluster.events.document import EVENTS, EventType, ObjectReference
from bursar.app.cluster.events.recorder import DEFAULT_BUDGET, Drop, EventRecorder
from bursar.app.cluster.ports import (
    BusyError,
    ClusterError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    UnavailableError,
)
from support.machine_time import MachineClock, run
from support.small_cluster import Line, SmallCluster, Travel


class Reason(Enum):
    HELD = "QuotaExceeded"
    RELEASED = "Released"


class OtherReason(Enum):
    HELD = "QuotaExceeded"


def a_pod(name: str = "web", namespace: str = "team-a") -> ObjectReference:
    return ObjectReference(
        api_version="v1", kind="Pod", namespace=namespace, name=name, uid=f"uid-of-{name}"
    )


class Desk:
    """A recorder at work, and the cluster it writes to."""

    def __init__(self, budget: Budget = DEFAULT_BUDGET) -> None:
        self.cluster = SmallCluster()
        clock = MachineClock()
        self.line = Line(self.cluster, clock)
        self.recorder = EventRecorder(
            self.line,
            clock,
            reasons=Reason,
            component="bursar.io/controller",
            instance="bursar-0",
            budget=budget,
        )
        self.worker = asyncio.create_task(self.recorder.run())

    def record(self, note: str = "too much cpu", pod: ObjectReference | None = None) -> None:
        self.recorder.record(pod or a_pod(), Reason.HELD, note, action="Hold")

    @property
    def events(self) -> list[dict]:
        return [body for (kind, _), body in self.cluster.objects.items() if kind == EVENTS]

    @property
    def writes(self) -> int:
        return len(self.cluster.history)

    async def close(self) -> None:
        self.worker.cancel()
        await asyncio.wait((self.worker,))


def at_a_desk(test: Callable[[Desk], Awaitable[None]]) -> Callable[[], None]:
    async def main() -> None:
        desk = Desk()
        await test(desk)
        await desk.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    def wrapper() -> None:
        run(main())

    wrapper.__name__, wrapper.__doc__ = test.__name__, test.__doc__
    return wrapper


def counts(desk: Desk) -> list[int]:
    return [event.get("series", {"count": 1})["count"] for event in desk.events]


# ------------------------------------------------------------------ what is written


@at_a_desk
async def test_event_says_what_happened_to_whom(desk):
    node = ObjectReference(api_version="v1", kind="Node", name="n1")
    desk.recorder.record(
        a_pod(), Reason.HELD, "no room", action="Hold", type=EventType.WARNING, related=node
    )
    await asyncio.sleep(1)
    (event,) = desk.events
    name = event.pop("metadata")["name"]

    assert name.startswith("web.")
    assert event == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "eventTime": "2026-11-15T00:00:00.000000Z",
        "reportingController": "bursar.io/controller",
        "reportingInstance": "bursar-0",
        "action": "Hold",
        "reason": "QuotaExceeded",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "team-a",
            "name": "web",
            "uid": "uid-of-web",
        },
        "related": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
        "note": "no room",
        "type": "Warning",
    }


@at_a_desk
async def test_event_about_a_cluster_wide_object_is_kept_in_default(desk):
    desk.record(pod=ObjectReference(api_version="v1", kind="Node", name="n1"))
    await asyncio.sleep(1)

    assert desk.events[0]["metadata"]["namespace"] == "default"
    assert "namespace" not in desk.events[0]["regarding"]


@pytest.mark.parametrize("letter", ["a", "ü", "語", "\N{ABACUS}"])
@pytest.mark.parametrize("offset", range(4))
def test_long_note_is_cut_between_characters(letter, offset):
    async def main() -> None:
        desk = Desk()
        note = "x" * offset + letter * 2000
        desk.record(note)
        await asyncio.sleep(1)
        written = desk.events[0]["note"]

        assert note.startswith(written)
        assert 1024 - 4 < len(written.encode()) <= 1024
        await desk.close()

    run(main())


@pytest.mark.parametrize("name", ["system:masters", "x" * 250, "Upper", "-"])
def test_object_whose_name_cannot_begin_an_events_name_has_events_all_the_same(name):
    async def main() -> None:
        desk = Desk()
        desk.record(pod=a_pod(name))
        await asyncio.sleep(1)

        assert desk.events[0]["metadata"]["name"].startswith("event.")
        assert desk.events[0]["regarding"]["name"] == name
        await desk.close()

    run(main())


@at_a_desk
async def test_reason_from_another_list_is_our_own_fault(desk):
    with pytest.raises(AssertionError, match="closed list"):
        desk.recorder.record(a_pod(), OtherReason.HELD, "no", action="Hold")


# ------------------------------------------------------------------ counting


@at_a_desk
async def test_same_again_is_one_event_with_a_count(desk):
    for _ in range(50):
        desk.record()
        await asyncio.sleep(1)
    await asyncio.sleep(60)

    assert counts(desk) == [50]
    assert desk.events[0]["series"]["lastObservedTime"] == "2026-11-15T00:00:49.000000Z"
    assert desk.events[0]["eventTime"] == "2026-11-15T00:00:00.000000Z"


@at_a_desk
async def test_growing_count_is_written_ever_more_rarely(desk):
    for _ in range(3600):
        desk.record()
        await asyncio.sleep(1)
    hour = [10, 20, 40, 80, 160] + [300] * 12

    assert desk.writes <= 1 + len(hour)
    assert desk.writes >= 10


@at_a_desk
async def test_happenings_that_come_at_once_are_one_write(desk):
    for _ in range(1000):
        desk.record()
    await asyncio.sleep(5)

    assert counts(desk) == [1000]
    assert desk.writes == 1


@at_a_desk
async def test_same_after_a_long_silence_is_a_new_event(desk):
    desk.record()
    await asyncio.sleep(359)
    desk.record()
    await asyncio.sleep(361)
    desk.record()
    await asyncio.sleep(1)

    assert sorted(counts(desk)) == [1, 2]


@at_a_desk
async def test_what_differs_in_anything_is_an_event_of_its_own(desk):
    recreated = ObjectReference(
        api_version="v1", kind="Pod", namespace="team-a", name="web", uid="another"
    )
    record = desk.recorder.record
    record(a_pod(), Reason.HELD, "a", action="Hold")
    record(a_pod(), Reason.HELD, "b", action="Hold")
    record(a_pod(), Reason.RELEASED, "a", action="Hold")
    record(a_pod(), Reason.HELD, "a", action="Check")
    record(a_pod(), Reason.HELD, "a", action="Hold", type=EventType.WARNING)
    record(recreated, Reason.HELD, "a", action="Hold")
    await asyncio.sleep(5)

    assert counts(desk) == [1] * 6


@at_a_desk
async def test_many_notes_that_differ_are_combined(desk):
    for number in range(100):
        desk.record(f"short of {number}m")
    desk.record("short of 3m")
    await asyncio.sleep(60)
    combined = [event for event in desk.events if event["note"].startswith("(combined")]

    assert len(desk.events) == 11
    assert [event["note"] for event in combined] == ["(combined from similar events): short of 10m"]
    assert combined[0]["series"]["count"] == 90
    assert sorted(counts(desk)) == [1] * 9 + [2, 90]


@at_a_desk
async def test_event_that_the_cluster_no_longer_keeps_begins_again(desk):
    desk.record()
    await asyncio.sleep(1)
    desk.cluster.objects.clear()
    desk.record()
    await asyncio.sleep(60)

    assert counts(desk) == [2]


# ------------------------------------------------------------------ budget


@at_a_desk
async def test_object_has_a_burst_and_then_one_event_every_five_minutes(desk):
    reasons = [(kind, number) for kind in EventType for number in range(40)]
    for kind, number in reasons:
        desk.recorder.record(a_pod(), Reason.HELD, "n", action=f"Hold{number}", type=kind)
    await asyncio.sleep(20)

    assert len(desk.events) == 2 * 25
    assert desk.recorder.dropped == {Drop.OBJECT_BUDGET: 2 * 15}
    desk.record("other pods have their own", a_pod("db"))
    await asyncio.sleep(601)
    for number in range(3):
        desk.recorder.record(a_pod(), Reason.RELEASED, "n", action=f"Release{number}")
    await asyncio.sleep(20)
    assert len(desk.events) == 2 * 25 + 1 + 2


@at_a_desk
async def test_all_together_are_written_at_a_bounded_rate(desk):
    for number in range(300):
        desk.record(pod=a_pod(f"pod-{number}"))
    await asyncio.sleep(10)

    assert 100 + 9 * 10 <= desk.writes <= 100 + 10 * 10 + 1
    await asyncio.sleep(15)
    assert desk.writes == 300


def test_queue_is_bounded_and_the_rest_is_counted():
    async def main() -> None:
        desk = Desk(Budget(queue_max=10))
        desk.line.travel = lambda: Travel(refusal=UnavailableError("down"))
        for number in range(50):
            desk.record(pod=a_pod(f"pod-{number}"))

        assert desk.recorder.waiting == 10
        assert desk.recorder.dropped == {Drop.QUEUE_FULL: 40}
        await desk.close()

    run(main())


def test_memory_is_bounded():
    async def main() -> None:
        desk = Desk(Budget(queue_max=100_000))
        for number in range(10_000):
            desk.record(pod=a_pod(f"pod-{number}"))
        book = desk.recorder._book

        assert len(book._series) == len(book._alike) == 4096
        assert len(desk.recorder._objects._buckets) == 4096
        await desk.close()

    run(main())


# ------------------------------------------------------------------ trouble


@pytest.mark.parametrize(
    "error",
    [
        BusyError("later", retry_after=3),
        UnavailableError("down"),
        ConflictError("again"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_transient_trouble_is_outlasted(error):
    async def main() -> None:
        desk = Desk()
        travels = iter([Travel(refusal=error)] * 3 + [Travel(there=1e6)])
        desk.line.travel = lambda: next(travels, Travel())
        desk.record()
        await asyncio.sleep(1)
        desk.record()
        await asyncio.sleep(60)

        assert counts(desk) == [2]
        assert desk.recorder.dropped == {}
        await desk.close()

    run(main())


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (UnavailableError("down"), Drop.UNAVAILABLE),
        (ForbiddenError("the namespace is being terminated"), Drop.REFUSED),
        (InvalidError("no"), Drop.REFUSED),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, ClusterError) else "",
)
def test_lasting_trouble_drops_the_event_and_the_next_begins_afresh(error, reason):
    async def main() -> None:
        desk = Desk()
        desk.line.travel = lambda: Travel(refusal=error)
        desk.record()
        desk.record()
        await asyncio.sleep(60)

        assert desk.recorder.dropped == {reason: 2}
        assert desk.recorder.waiting == 0
        desk.line.travel = Travel
        desk.record()
        await asyncio.sleep(60)
        assert counts(desk) == [1]
        await desk.close()

    run(main())


@at_a_desk
async def test_lost_answers_make_no_event_twice(desk):
    travels = iter([Travel(is_answer_lost=True)] * 3)
    desk.line.travel = lambda: next(travels, Travel())
    desk.record()
    await asyncio.sleep(1)
    desk.record()
    await asyncio.sleep(60)

    assert counts(desk) == [2]


@at_a_desk
async def test_event_that_cannot_be_written_does_not_hold_up_the_others(desk):
    travels = iter([Travel(refusal=UnavailableError("down"))])
    desk.line.travel = lambda: next(travels, Travel())
    desk.record(pod=a_pod("first"))
    desk.record(pod=a_pod("second"))
    await asyncio.sleep(1)

    assert [event["regarding"]["name"] for event in desk.events] == ["second"]
    await asyncio.sleep(5)
    assert len(desk.events) == 2


# ------------------------------------------------------------------ ending


@pytest.mark.parametrize("moment", [0, 0.005, 0.015, 0.5, 12])
def test_shutdown_writes_what_is_left(moment):
    async def main() -> None:
        desk = Desk()
        desk.record()
        await asyncio.sleep(moment)
        desk.record()
        desk.record(pod=a_pod("db"))
        await desk.close()

        assert sorted(counts(desk)) == [1, 2]
        assert desk.recorder.dropped == {}
        assert desk.worker.cancelled()

    run(main())


def test_shutdown_is_not_held_up_by_a_cluster_that_does_not_answer():
    async def main() -> None:
        desk = Desk()
        desk.line.travel = lambda: Travel(there=1e6)
        for number in range(20):
            desk.record(pod=a_pod(f"pod-{number}"))
        await asyncio.sleep(1)
        await desk.close()

        assert asyncio.get_running_loop().time() <= 1 + 5
        assert desk.recorder.dropped == {Drop.UNAVAILABLE: 20}

    run(main())
