"""A short notation for the books: `a_row("a/web", "cpu=1")`, `a_quota("a/q", "pods=2")`.

Pods that are written alike share their profile, as decoded rows do.
"""

from collections.abc import Callable, Container
from dataclasses import fields, replace
from functools import cache
from typing import Any

from bursar.core.model.pod_row import Deletion, Extras, PodDemand, PodProfile, PodRow, Stamp
from bursar.core.model.qos import QosClass
from bursar.core.model.selectors.text import parse_selector
from bursar.core.quota.account import Charge
from bursar.core.quota.books import Books
from bursar.core.quota.counting import NativeCounter, NotReady
from bursar.core.quota.coverage import Namespace
from bursar.core.quota.quota import GATE, NamespaceSelector, Order, Quota, QuotaKey, QuotaKind
from bursar.core.quota.scopes import EXISTS, ScopeRule
from support.builders.pods import listed, parsed

Count = Callable[[PodRow], Charge | NotReady]
GATED = (GATE,)
UNGATED = ()
NOW_S = 1_000
"""The time in books that were just opened."""


@cache
def a_demand(requests: str = "", limits: str = "") -> PodDemand:
    amounts = parsed(requests)
    return PodDemand(
        quota_requests=amounts,
        quota_limits=parsed(limits),
        assigned_requests=amounts,
        qos=QosClass.BURSTABLE if requests or limits else QosClass.BEST_EFFORT,
    )


@cache
def a_profile(namespace: str, requests: str = "", limits: str = "", **facts: Any) -> PodProfile:
    plain = PodProfile(
        namespace=namespace,
        priority=None,
        priority_class="",
        runtime_class="",
        gates=GATED,
        deadline_s=None,
        crosses_namespaces=False,
        reported_qos=None,
        demand=a_demand(requests, limits),
    )
    return replace(plain, **facts)


def a_row(where: str, requests: str = "", limits: str = "", **facts: Any) -> PodRow:
    """A pod that waits at our gate, unless `gates` says otherwise."""
    namespace, name = where.split("/")
    uid, version = facts.pop("uid", f"uid-of-{name}"), facts.pop("version", 1)
    created_s, phase = facts.pop("created_s", 0), facts.pop("phase", "Pending")
    due = facts.pop("deletion", None)
    return PodRow(
        name=name,
        packed_stamp=Stamp(uid, str(version), created_s),
        node_name="",
        phase=phase,
        extras=None if due is None else Extras(Deletion(*due)),
        profile=a_profile(namespace, requests, limits, **facts),
    )


def running(row: PodRow) -> PodRow:
    """The same pod one write later, without its gates."""
    return changed(row, profile=with_facts(row.profile, gates=UNGATED))


def with_facts(profile: PodProfile, *, requests: str = "", **facts: Any) -> PodProfile:
    """A profile that differs in these facts, the same one each time."""
    if requests:
        facts["demand"] = a_demand(requests)
    _PROFILES.setdefault(_facts_of(profile), profile)
    key = _facts_of(profile, **facts)
    if key not in _PROFILES:
        _PROFILES[key] = replace(profile, **facts)
    return _PROFILES[key]


def _facts_of(profile: PodProfile, **facts: Any) -> tuple[Any, ...]:
    held = {name: getattr(profile, name) for name in _NAMES} | facts
    return (id(held.pop("demand")), *held.values())


_NAMES = tuple(each.name for each in fields(PodProfile))
_PROFILES: dict[tuple[Any, ...], PodProfile] = {}
"""By their facts, of the demand by its address, which is kept so that it stays the demand's."""


def changed(row: PodRow, **parts: Any) -> PodRow:
    """The same pod one write later."""
    stamp = row.stamp
    later = stamp._replace(resource_version=str(int(stamp.resource_version) + 1))
    if "deletion" in parts:
        parts["extras"] = Extras(parts.pop("deletion"))
    return row._replace(packed_stamp=later, **parts)


def a_key(where: str) -> QuotaKey:
    """`a/q` is the quota of a namespace, `q` one of the whole cluster."""
    namespace, _, name = where.rpartition("/")
    return QuotaKey(QuotaKind.NAMESPACED if namespace else QuotaKind.CLUSTER, namespace, name)


def a_quota(
    where: str, hard: str, *, order: str = "backfill", scopes: str = "", selector: str = ""
) -> Quota:
    """Scopes are listed with blanks between; the selector is one of labels."""
    key = a_key(where)
    labels = parse_selector(selector) if selector else None
    return Quota(
        key=key,
        hard=parsed(hard),
        scopes=tuple(ScopeRule(scope, EXISTS) for scope in scopes.split()),
        selector=NamespaceSelector(labels=labels) if key.kind is QuotaKind.CLUSTER else None,
        order=Order(order),
    )


def a_namespace(name: str, labels: str = "", *, is_targeted: bool = True) -> Namespace:
    return Namespace(name=name, labels=listed(labels), is_targeted=is_targeted)


# ------------------------------------------------------------------ books


def open_books(count: Count) -> Books:
    """Books with namespace `a` and a quota of one CPU in it."""
    books = Books(count)
    books.advance(NOW_S)
    books.see_namespace(a_namespace("a"))
    books.see_quota(a_quota("a/q", "cpu=1"))
    return books


def counting_all_but(unready: Container[str]) -> Count:
    """Count pods as Kubernetes does, except for those of these names."""
    native = NativeCounter()

    def count(row: PodRow) -> Charge | NotReady:
        charge = native.count(row)
        if row.name in unready:
            return NotReady(detail="its machine", provisional=charge)
        return charge

    return count


def releases(books: Books) -> list[PodRow]:
    return [release.row for release in books.decide().releases]


def cpu(books: Books, where: str = "a/q") -> tuple[int, int]:
    """Milli-CPUs charged and promised."""
    account = books.coverage.quota(a_key(where)).accounts["cpu"]
    return account.charged // 10**6, account.promised // 10**6
