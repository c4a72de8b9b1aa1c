"""Failure reports at a bounded rate, and writes that the watch has not shown yet."""

from bursar.app.cluster.failures import FailureReporter
from bursar.app.cluster.informer.store import Identity
from bursar.app.cluster.ports import Key
from bursar.app.cluster.reconcile import PendingWrites

KEY = Key("a", "q")


def test_each_class_of_failure_is_reported_at_once_and_then_once_per_interval():
    lines: list[str] = []
    failures = FailureReporter(lines.append, interval_s=60)
    for second in (0, 1, 2, 61, 62, 200):
        failures.report(second, "Forbidden", f"at {second}")
    failures.report(1, "Timeout", "no answer")

    assert lines == [
        "Forbidden: at 0",
        "Forbidden: at 61 (2 more since the last report)",
        "Forbidden: at 200 (1 more since the last report)",
        "Timeout: no answer",
    ]


def test_a_write_is_pending_until_the_watch_shows_another_state():
    pending = PendingWrites[str]()
    pending.add(Identity(KEY, "u", "5"), "written")

    assert pending.find(Identity(KEY, "u", "5")) == "written"
    assert pending.find(Identity(KEY, "u", "6")) is None
    assert pending.find(Identity(Key("a", "other"), "u", "5")) is None
    pending.forget(KEY)
    assert pending.find(Identity(KEY, "u", "5")) is None
