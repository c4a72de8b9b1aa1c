"""Decisions about pods that all have different sizes: how long the event loop is blocked.

The quota is full, so that every pod has to be tried, told and parked. After the patience of all
of them has ended, each is tried again. Then one pod ends, again and again, and the next goes.
The ceiling is the same decision in one piece. Garbage is collected as in the controller.
"""

import gc
import time
from collections.abc import Iterator

from bursar.app.quota.quota_loop import STEPS_MAX
from bursar.core.model.pod_row import PodDemand, PodProfile, PodRow, Stamp
from bursar.core.model.qos import QosClass
from bursar.core.model.quantity import Quantity
from bursar.core.quota.books import PATIENCE_SECONDS, UNLIMITED, Books
from bursar.core.quota.counting import NativeCounter
from bursar.core.quota.coverage import Namespace
from bursar.core.quota.quota import GATE, Quota, QuotaKey, QuotaKind
from bursar.entry.controller import COLLECTOR_THRESHOLDS, collect_young
from ratio import Ratio

PODS = 100_000
NOW_S = 1_800_000_000
WAKE_UPS = 200


def a_row(name: str, nanos: int, *, gates: tuple[str, ...] = (GATE,), version: int = 1) -> PodRow:
    requests = {"cpu": Quantity.parse(f"{nanos}n")}
    demand = PodDemand(
        quota_requests=requests,
        quota_limits={},
        assigned_requests=requests,
        qos=QosClass.BURSTABLE,
    )
    profile = PodProfile(
        namespace="team",
        priority=None,
        priority_class="",
        runtime_class="",
        gates=gates,
        deadline_s=None,
        crosses_namespaces=False,
        reported_qos=None,
        demand=demand,
    )
    stamp = Stamp(f"uid-{name}", str(version), NOW_S).packed()
    return PodRow(name, stamp, "", "Pending", None, profile)


def crowded_books() -> Books:
    books = Books(NativeCounter().count)
    books.advance(NOW_S)
    books.see_namespace(Namespace(name="team"))
    key = QuotaKey(QuotaKind.NAMESPACED, "team", "all")
    books.see_quota(Quota(key=key, hard={"requests.cpu": Quantity.parse("100")}))
    books.see_pod(a_row("large", 100 * 10**9, gates=()))
    for number in range(PODS):
        books.see_pod(a_row(f"pod-{number}", 1_000_000 + number))
    return books


def longest_ms(books: Books, steps_max: int) -> float:
    """The longest slice of a decision, in milliseconds of CPU time."""
    longest = 0.0
    while True:
        started = time.process_time()
        is_done = books.decide(steps_max).is_done
        if not is_done:
            collect_young()  # As the controller does between slices.
        longest = max(longest, time.process_time() - started)
        if is_done:
            return longest * 1_000


def first_and_last(steps_max: int) -> tuple[float, float, float]:
    """The longest slices: when all are new, when patience ends; and the mean of a wake-up."""
    books = crowded_books()
    new = longest_ms(books, steps_max)
    books.advance(NOW_S + PATIENCE_SECONDS, steps_max=steps_max)
    patience = longest_ms(books, steps_max)
    started = time.process_time()
    for number in range(WAKE_UPS):
        nanos = 100 * 10**9 - (number + 1) * 2_000_000
        books.see_pod(a_row("large", nanos, gates=(), version=number + 2))
        longest_ms(books, steps_max)
    return new, patience, (time.process_time() - started) / WAKE_UPS * 1_000


def measure() -> Iterator[Ratio]:
    before = gc.get_threshold()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)
    sliced, whole = first_and_last(STEPS_MAX), first_and_last(UNLIMITED)
    gc.set_threshold(*before)
    names = ("100k sizes: new", "100k sizes: patience ends")
    for name, ours, theirs in zip(names, sliced, whole, strict=False):
        yield Ratio(name, ours, "in one piece", theirs, "ms a slice", "<= 50")
    yield Ratio("100k sizes: room for one", sliced[2], "in one piece", whole[2], "ms", "<= 50")
