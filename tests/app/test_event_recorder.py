"""Events on a small cluster in virtual time: counted, combined, within budget, never in the way."""

import asyncio
from enum import Enum
from typing import Self

import pytest

from bursar.app.cluster.events.budget import Budget
from bursar.app.cluster.events.document import EventType, ObjectReference
from bursar.app.cluster.events.recorder import DEFAULT_BUDGET, Drop, EventRecorder
from bursar.app.cluster.kinds import EVENTS
from bursar.app.cluster.ports import (
    BusyError,
    ClusterError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    UnavailableError,
)
from support.cluster.small_cluster import Line, SmallCluster, Travel
from support.virtual_time import MachineClock, in_virtual_time


class Reason(Enum):
    HELD = "QuotaExceeded"
    RELEASED = "Released"


class OtherReason(Enum):
    HELD = "QuotaExceeded"


def pod_ref(name: str = "web", namespace: str = "team-a") -> ObjectReference:
    return ObjectReference(
        api_version="v1", kind="Pod", namespace=namespace, name=name, uid=f"uid-of-{name}"
    )


class Recording:
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
        self.recorder.record(pod or pod_ref(), Reason.HELD, note, action="Hold")

    @property
    def events(self) -> list[dict]:
        return [body for (kind, _), body in self.cluster.objects.items() if kind == EVENTS]

    @property
    def writes(self) -> int:
        return len(self.cluster.history)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        self.worker.cancel()
        await asyncio.wait((self.worker,))


def counts(recording: Recording) -> list[int]:
    return [event.get("series", {"count": 1})["count"] for event in recording.events]


# ------------------------------------------------------------------ what is written


@in_virtual_time(on=Recording)
async def test_event_says_what_happened_to_whom(recording):
    node = ObjectReference(api_version="v1", kind="Node", name="n1")
    recording.recorder.record(
        pod_ref(), Reason.HELD, "no room", action="Hold", type=EventType.WARNING, related=node
    )
    await asyncio.sleep(1)
    (event,) = recording.events
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


@in_virtual_time(on=Recording)
async def test_event_about_a_cluster_wide_object_is_kept_in_default(recording):
    recording.record(pod=ObjectReference(api_version="v1", kind="Node", name="n1"))
    await asyncio.sleep(1)

    assert recording.events[0]["metadata"]["namespace"] == "default"
    assert "namespace" not in recording.events[0]["regarding"]


@pytest.mark.parametrize("letter", ["a", "ü", "語", "\N{ABACUS}"])
@pytest.mark.parametrize("offset", range(4))
@in_virtual_time(on=Recording)
async def test_long_note_is_cut_between_characters(recording, letter, offset):
    note = "x" * offset + letter * 2000
    recording.record(note)
    await asyncio.sleep(1)
    written = recording.events[0]["note"]

    assert note.startswith(written)
    assert 1024 - 4 < len(written.encode()) <= 1024


@pytest.mark.parametrize("name", ["system:masters", "x" * 250, "Upper", "-"])
@in_virtual_time(on=Recording)
async def test_object_whose_name_cannot_begin_an_events_name_has_events_all_the_same(
    recording, name
):
    recording.record(pod=pod_ref(name))
    await asyncio.sleep(1)

    assert recording.events[0]["metadata"]["name"].startswith("event.")
    assert recording.events[0]["regarding"]["name"] == name


@in_virtual_time(on=Recording)
async def test_reason_from_another_list_is_our_own_fault(recording):
    with pytest.raises(AssertionError, match="closed list"):
        recording.recorder.record(pod_ref(), OtherReason.HELD, "no", action="Hold")


# ------------------------------------------------------------------ counting


@in_virtual_time(on=Recording)
async def test_same_again_is_one_event_with_a_count(recording):
    for _ in range(50):
        recording.record()
        await asyncio.sleep(1)
    await asyncio.sleep(60)

    assert counts(recording) == [50]
    assert recording.events[0]["series"]["lastObservedTime"] == "2026-11-15T00:00:49.000000Z"
    assert recording.events[0]["eventTime"] == "2026-11-15T00:00:00.000000Z"


@in_virtual_time(on=Recording)
async def test_growing_count_is_written_ever_more_rarely(recording):
    for _ in range(3600):
        recording.record()
        await asyncio.sleep(1)
    hour = [10, 20, 40, 80, 160] + [300] * 12

    assert recording.writes <= 1 + len(hour)
    assert recording.writes >= 10


@in_virtual_time(on=Recording)
async def test_happenings_that_come_at_once_are_one_write(recording):
    for _ in range(1000):
        recording.record()
    await asyncio.sleep(5)

    assert counts(recording) == [1000]
    assert recording.writes == 1


@in_virtual_time(on=Recording)
async def test_same_after_a_long_silence_is_a_new_event(recording):
    recording.record()
    await asyncio.sleep(359)
    recording.record()
    await asyncio.sleep(361)
    recording.record()
    await asyncio.sleep(1)

    assert sorted(counts(recording)) == [1, 2]


@in_virtual_time(on=Recording)
async def test_what_differs_in_anything_is_an_event_of_its_own(recording):
    recreated = ObjectReference(
        api_version="v1", kind="Pod", namespace="team-a", name="web", uid="another"
    )
    record = recording.recorder.record
    record(pod_ref(), Reason.HELD, "a", action="Hold")
    record(pod_ref(), Reason.HELD, "b", action="Hold")
    record(pod_ref(), Reason.RELEASED, "a", action="Hold")
    record(pod_ref(), Reason.HELD, "a", action="Check")
    record(pod_ref(), Reason.HELD, "a", action="Hold", type=EventType.WARNING)
    record(recreated, Reason.HELD, "a", action="Hold")
    await asyncio.sleep(5)

    assert counts(recording) == [1] * 6


@in_virtual_time(on=Recording)
async def test_many_notes_that_differ_are_combined(recording):
    for number in range(100):
        recording.record(f"short of {number}m")
    recording.record("short of 3m")
    await asyncio.sleep(60)
    combined = [event for event in recording.events if event["note"].startswith("(combined")]

    assert len(recording.events) == 11
    assert [event["note"] for event in combined] == ["(combined from similar events): short of 10m"]
    assert combined[0]["series"]["count"] == 90
    assert sorted(counts(recording)) == [1] * 9 + [2, 90]


@in_virtual_time(on=Recording)
async def test_event_that_the_cluster_no_longer_keeps_begins_again(recording):
    recording.record()
    await asyncio.sleep(1)
    recording.cluster.objects.clear()
    recording.record()
    await asyncio.sleep(60)

    assert counts(recording) == [2]


# ------------------------------------------------------------------ budget


@in_virtual_time(on=Recording)
async def test_object_has_a_burst_and_then_one_event_every_five_minutes(recording):
    reasons = [(kind, number) for kind in EventType for number in range(40)]
    for kind, number in reasons:
        recording.recorder.record(pod_ref(), Reason.HELD, "n", action=f"Hold{number}", type=kind)
    await asyncio.sleep(20)

    assert len(recording.events) == 2 * 25
    assert recording.recorder.dropped == {Drop.OBJECT_BUDGET: 2 * 15}
    recording.record("other pods have their own", pod_ref("db"))
    await asyncio.sleep(601)
    for number in range(3):
        recording.recorder.record(pod_ref(), Reason.RELEASED, "n", action=f"Release{number}")
    await asyncio.sleep(20)
    assert len(recording.events) == 2 * 25 + 1 + 2


@in_virtual_time(on=Recording)
async def test_all_together_are_written_at_a_bounded_rate(recording):
    for number in range(300):
        recording.record(pod=pod_ref(f"pod-{number}"))
    await asyncio.sleep(10)

    assert 100 + 9 * 10 <= recording.writes <= 100 + 10 * 10 + 1
    await asyncio.sleep(15)
    assert recording.writes == 300


@in_virtual_time(on=lambda: Recording(Budget(queue_max=10)))
async def test_queue_is_bounded_and_the_rest_is_counted(recording):
    recording.line.travel = lambda: Travel(refusal=UnavailableError("down"))
    for number in range(50):
        recording.record(pod=pod_ref(f"pod-{number}"))

    assert recording.recorder.waiting == 10
    assert recording.recorder.dropped == {Drop.QUEUE_FULL: 40}


@in_virtual_time(on=lambda: Recording(Budget(queue_max=100_000)))
async def test_memory_is_bounded(recording):
    for number in range(10_000):
        recording.record(pod=pod_ref(f"pod-{number}"))
    book = recording.recorder._book

    assert len(book._series) == len(book._alike) == 1024
    assert len(recording.recorder._objects._full_at) == 1024


@in_virtual_time(on=Recording)
async def test_of_a_written_event_only_what_a_repetition_needs_is_kept(recording):
    recording.record()
    await asyncio.sleep(1)
    [series] = recording.recorder._book._series.values()

    assert recording.writes == 1
    assert series.occurrence is None


@in_virtual_time(on=Recording)
async def test_events_that_cannot_be_continued_are_forgotten(recording):
    for number in range(10):
        recording.record(pod=pod_ref(f"pod-{number}"))
    await asyncio.sleep(601)
    for number in range(10):
        recording.record(pod=pod_ref(f"other-{number}"))
    book = recording.recorder._book

    assert len(book._series) == len(book._alike) == 10
    assert len(recording.recorder._objects._full_at) == 10


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
@in_virtual_time(on=Recording)
async def test_transient_trouble_is_outlasted(recording, error):
    travels = iter([Travel(refusal=error)] * 3 + [Travel(there=1e6)])
    recording.line.travel = lambda: next(travels, Travel())
    recording.record()
    await asyncio.sleep(1)
    recording.record()
    await asyncio.sleep(60)

    assert counts(recording) == [2]
    assert recording.recorder.dropped == {}


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (UnavailableError("down"), Drop.UNAVAILABLE),
        (ForbiddenError("the namespace is being terminated"), Drop.REFUSED),
        (InvalidError("no"), Drop.REFUSED),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, ClusterError) else "",
)
@in_virtual_time(on=Recording)
async def test_lasting_trouble_drops_the_event_and_the_next_begins_afresh(recording, error, reason):
    recording.line.travel = lambda: Travel(refusal=error)
    recording.record()
    recording.record()
    await asyncio.sleep(60)

    assert recording.recorder.dropped == {reason: 2}
    assert recording.recorder.waiting == 0
    recording.line.travel = Travel
    recording.record()
    await asyncio.sleep(60)
    assert counts(recording) == [1]


@in_virtual_time(on=Recording)
async def test_lost_answers_make_no_event_twice(recording):
    travels = iter([Travel(is_answer_lost=True)] * 3)
    recording.line.travel = lambda: next(travels, Travel())
    recording.record()
    await asyncio.sleep(1)
    recording.record()
    await asyncio.sleep(60)

    assert counts(recording) == [2]


@in_virtual_time(on=Recording)
async def test_event_that_cannot_be_written_does_not_hold_up_the_others(recording):
    travels = iter([Travel(refusal=UnavailableError("down"))])
    recording.line.travel = lambda: next(travels, Travel())
    recording.record(pod=pod_ref("first"))
    recording.record(pod=pod_ref("second"))
    await asyncio.sleep(1)

    assert [event["regarding"]["name"] for event in recording.events] == ["second"]
    await asyncio.sleep(5)
    assert len(recording.events) == 2


# ------------------------------------------------------------------ ending


@pytest.mark.parametrize("moment", [0, 0.005, 0.015, 0.5, 12])
@in_virtual_time(on=Recording)
async def test_shutdown_writes_what_is_left(recording, moment):
    recording.record()
    await asyncio.sleep(moment)
    recording.record()
    recording.record(pod=pod_ref("db"))
    await recording.close()

    assert sorted(counts(recording)) == [1, 2]
    assert recording.recorder.dropped == {}
    assert recording.worker.cancelled()


@in_virtual_time(on=Recording)
async def test_shutdown_is_not_held_up_by_a_cluster_that_does_not_answer(recording):
    recording.line.travel = lambda: Travel(there=1e6)
    for number in range(20):
        recording.record(pod=pod_ref(f"pod-{number}"))
    await asyncio.sleep(1)
    await recording.close()

    assert asyncio.get_running_loop().time() <= 1 + 5
    assert recording.recorder.dropped == {Drop.UNAVAILABLE: 20}
