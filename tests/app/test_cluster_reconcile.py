"""Writes that the watch has not shown yet."""

from bursar.app.cluster.informer.store import Identity
from bursar.app.cluster.ports import Key
from bursar.app.cluster.reconcile import PendingWrites

KEY = Key("a", "q")


def test_a_write_is_pending_until_the_watch_shows_another_state():
    pending = PendingWrites[str]()
    pending.add(Identity(KEY, "u", "5"), "written")

    assert pending.find(Identity(KEY, "u", "5")) == "written"
    assert pending.find(Identity(KEY, "u", "6")) is None
    assert pending.find(Identity(Key("a", "other"), "u", "5")) is None
    pending.forget(KEY)
    assert pending.find(Identity(KEY, "u", "5")) is None
