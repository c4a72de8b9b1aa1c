"""The story of a cluster, from one state to the next."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bursar.app.reports.overview import EventLine
from bursar.app.reports.story import LINES_MAX, Story
from bursar.core.model.pod import Pod
from bursar.wire.cluster.event import SeenEvent
from support.builders.manifests import pod_manifest
from support.builders.random_objects import as_pod

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


def stored(*gates: str, requests: str = "cpu=1", uid: str = "u", **more: Any) -> Pod:
    return as_pod(pod_manifest("d/a", *gates, requests=requests, metadata={"uid": uid}, **more))


def told(*states: list[Pod], tells_all: bool = True) -> list[tuple[str, str]]:
    story = Story(tells_all=tells_all)
    for number, pods in enumerate(states):
        story.see(pods, NOON + timedelta(seconds=number))
    return [(line.reason, line.note) for line in reversed(story.with_events(()))]


RUNNING = stored(node="n", phase="Running")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (
            stored("x/hold"),
            stored(),
            [("Released", "every quota has room, and the gate was removed")],
        ),
        (stored(), stored(node="n"), [("Placed", "on n, takes cpu 1")]),
        (RUNNING, stored(node="n", phase="Succeeded"), [("Finished", "frees cpu 1")]),
        (RUNNING, stored(node="n", phase="Failed"), [("Failed", "the pod has failed")]),
        (
            RUNNING,
            stored(node="n", phase="Running", requests="cpu=2"),
            [("Resized", "now requests cpu 2")],
        ),
        (
            stored(requests=""),
            stored(node="n", requests=""),
            [("Placed", "on n, takes no resources")],
        ),
        (RUNNING, RUNNING, []),
        (stored(uid="old"), stored(uid="new"), []),
        (stored(uid="old"), stored(uid="new", node="n"), [("Placed", "on n, takes cpu 1")]),
    ],
)
def test_each_step_of_a_pod_is_told(before, after, expected):
    assert told([before], [after]) == expected


def test_what_was_there_before_is_not_told_and_what_comes_is():
    assert told([RUNNING]) == []
    assert told([], [RUNNING]) == [("Placed", "on n, takes cpu 1")]


def test_a_cluster_with_events_of_its_own_tells_only_what_they_lack():
    gone = stored(node="n", phase="Succeeded")

    assert told([stored()], [RUNNING], [gone], tells_all=False) == []
    assert [reason for reason, _ in told([stored("x/hold")], [stored()], tells_all=False)] == [
        "Released"
    ]


def test_events_of_the_cluster_come_in_between_and_the_oldest_go():
    story = Story(tells_all=True)
    story.see([stored()], NOON)
    story.see([RUNNING], NOON + timedelta(seconds=1))
    events = [
        SeenEvent(
            kind="Node",
            namespace="",
            name="n",
            reason=f"r{number}",
            note="",
            is_warning=True,
            count=2,
            time=NOON + timedelta(seconds=number),
        )
        for number in range(LINES_MAX)
    ]
    nameless = SeenEvent(
        kind="", namespace="", name="", reason="?", note="", is_warning=False, count=1, time=None
    )

    lines = story.with_events([*events, nameless])

    assert len(lines) == LINES_MAX
    assert lines[0] == EventLine(
        time=events[-1].time or NOON,
        namespace="",
        kind="Node",
        name="n",
        reason=f"r{LINES_MAX - 1}",
        note="",
        is_warning=True,
        count=2,
    )
    assert [line.reason for line in lines[-2:]] == ["r1", "Placed"]


def test_a_line_can_be_added():
    story = Story(tells_all=False)
    line = EventLine(time=NOON, namespace="", kind="Process", name="p", reason="Warning", note="n")
    story.add(line)

    assert story.with_events(()) == (line,)
