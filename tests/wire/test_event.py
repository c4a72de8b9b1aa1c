"""Events as the API server stores them: of new and of old clients."""

import json
from datetime import UTC, datetime

import pytest

from bursar.wire.cluster.event import SeenEvent, decode_event

REGARDING = {"kind": "Pod", "namespace": "shop", "name": "web"}


def decoded(**fields: object) -> SeenEvent:
    return decode_event(json.dumps({"metadata": {"name": "e"}, **fields}).encode())


@pytest.mark.parametrize(
    ("fields", "hour", "count"),
    [
        ({"eventTime": "2026-03-04T10:00:00.000001Z"}, 10, 1),
        (
            {
                "eventTime": "2026-03-04T10:00:00Z",
                "series": {"count": 7, "lastObservedTime": "2026-03-04T11:00:00.5Z"},
            },
            11,
            7,
        ),
        ({"deprecatedLastTimestamp": "2026-03-04T12:00:00Z", "deprecatedCount": 3}, 12, 3),
    ],
)
def test_an_event_has_the_time_and_number_of_its_last_occurrence(fields, hour, count):
    seen = decoded(regarding=REGARDING, reason="Killing", note="why", type="Warning", **fields)

    assert seen.time is not None
    assert seen.time.astimezone(UTC).replace(microsecond=0) == datetime(
        2026, 3, 4, hour, tzinfo=UTC
    )
    assert (seen.kind, seen.namespace, seen.name) == ("Pod", "shop", "web")
    assert (seen.reason, seen.note, seen.is_warning, seen.count) == ("Killing", "why", True, count)


def test_an_event_may_say_nothing():
    assert decoded() == SeenEvent(
        kind="", namespace="", name="", reason="", note="", is_warning=False, count=1, time=None
    )
