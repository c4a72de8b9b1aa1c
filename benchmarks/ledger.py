"""The books: lives of pods that wait, are let go, run and end, under 1,000 quotas.

A pod is seen at its gate, `decide` lets it go with its room reserved, it is seen running,
and it ends. Each is covered by two quotas with four resources and has a share in one of
them. The ceiling is a loop over the same rows that only keeps them by name.
"""

import statistics
import time
from collections.abc import Iterator
from dataclasses import replace

from bursar.core.model.pod_row import PodDemand, PodProfile, PodRow, Stamp
from bursar.core.model.qos import QosClass
from bursar.core.model.quantity import Quantity
from bursar.core.quota.books import Books
from bursar.core.quota.counting import NativeCounter
from bursar.core.quota.coverage import Namespace
from bursar.core.quota.ledger import PodKey, Reservation
from bursar.core.quota.quota import GATE, NamespaceSelector, Quota, QuotaKey, QuotaKind
from bursar.core.quota.releases import ReleaseOutcome
from ratio import Ratio, alternate

NAMESPACES = 990
CLUSTER_WIDE = 10
PODS = 20_000
BATCH = 200
"""Pods that are seen between two rounds of decisions."""
ROUNDS = 5

Life = tuple[PodRow, PodRow]
"""A pod at its gate, and without it."""


def amounts(**texts: str) -> dict[str, Quantity]:
    return {name: Quantity.parse(text) for name, text in texts.items()}


def quotas() -> Iterator[Quota]:
    hard = amounts(pods="50") | {
        "requests.cpu": Quantity.parse("100"),
        "requests.memory": Quantity.parse("200Gi"),
        "limits.cpu": Quantity.parse("200"),
    }
    for number in range(NAMESPACES):
        yield Quota(key=QuotaKey(QuotaKind.NAMESPACED, f"team-{number}", "all"), hard=hard)
    wide = {name: amount * NAMESPACES for name, amount in hard.items()}
    for number in range(CLUSTER_WIDE):
        yield Quota(
            key=QuotaKey(QuotaKind.CLUSTER, "", f"division-{number}"),
            hard=wide,
            selector=NamespaceSelector(annotations={"division": str(number)}),
        )


def lives() -> list[Life]:
    requests = amounts(cpu="500m", memory="1Gi")
    demand = PodDemand(
        quota_requests=requests,
        quota_limits=amounts(cpu="2"),
        assigned_requests=requests,
        qos=QosClass.BURSTABLE,
    )
    profiles = [_profile(f"team-{number}", demand) for number in range(NAMESPACES)]
    running = [replace(profile, gates=()) for profile in profiles]
    made = []
    for number in range(PODS):
        uid = f"{number:08x}-0000-4000-8000-000000000000"
        stamps = [Stamp(uid, str(version), 1_800_000_000 + number).packed() for version in (1, 2)]
        rows = [
            PodRow(f"web-{number}", stamp, "", "Pending", None, each[number % NAMESPACES])
            for stamp, each in zip(stamps, (profiles, running), strict=True)
        ]
        made.append((rows[0], rows[1]))
    return made


def _profile(namespace: str, demand: PodDemand) -> PodProfile:
    return PodProfile(
        namespace=namespace,
        priority=None,
        priority_class="",
        runtime_class="",
        gates=(GATE,),
        deadline_s=None,
        crosses_namespaces=False,
        reported_qos=None,
        demand=demand,
    )


def opened_books() -> Books:
    books = Books(NativeCounter().count)
    for number in range(NAMESPACES):
        division = {"division": str(number % CLUSTER_WIDE)}
        books.see_namespace(Namespace(name=f"team-{number}", annotations=division))
    for quota in quotas():
        books.see_quota(quota)
    return books


def live(books: Books, batches: list[list[Life]]) -> float:
    """All lives; returns the seconds that were spent in `decide`."""
    deciding_s = 0.0
    for batch in batches:
        for gated, _ in batch:
            books.see_pod(gated)
        started = time.perf_counter()
        releases = books.decide().releases
        deciding_s += time.perf_counter() - started
        assert len(releases) == len(batch)
        for release in releases:
            books.settle(release.row, ReleaseOutcome.LIFTED)
        for _, running in batch:
            books.see_pod(running)
        for _, running in batch:
            books.lose_pod(running.namespace, running.name)
        books.ledger.touched.clear()
    return deciding_s


def promise(books: Books, made: list[Life]) -> None:
    """What the ledger itself decides: is there room for this pod, and if so, hold it."""
    ledger, coverage, count = books.ledger, books.coverage, NativeCounter().count
    for gated, _ in made:
        bill = coverage.bill(gated.profile, count(gated))
        pod = PodKey(gated.namespace, gated.name)
        assert bill.fits()
        ledger.hold(Reservation(id=gated.name, bill=bill, pod=pod, row=gated))
        ledger.cancel(gated.name)
    ledger.freed.clear()


def keep_by_name(batches: list[list[Life]]) -> None:
    kept: dict[tuple[str, str], PodRow] = {}
    for batch in batches:
        for gated, _ in batch:
            kept[gated.namespace, gated.name] = gated
        for _, running in batch:
            kept[running.namespace, running.name] = running
        for _, running in batch:
            del kept[running.namespace, running.name]


def measure() -> Iterator[Ratio]:
    books, made = opened_books(), lives()
    batches = [made[start : start + BATCH] for start in range(0, PODS, BATCH)]
    deciding_s: list[float] = []
    ours, theirs = alternate(
        lambda: deciding_s.append(live(books, batches)), lambda: keep_by_name(batches), ROUNDS
    )
    ceiling = PODS / theirs
    deciding = PODS / statistics.median(deciding_s)
    promising, _ = alternate(lambda: promise(books, made), lambda: keep_by_name(batches), ROUNDS)
    yield Ratio(
        "ledger: promise, take back",
        PODS / promising,
        "rows by name",
        ceiling,
        "decisions/s",
        ">= 100k",
    )
    yield Ratio("whole lives, 1,000 quotas", PODS / ours, "rows by name", ceiling, "pods/s")
    yield Ratio("decide alone", deciding, "rows by name", ceiling, "decisions/s")
