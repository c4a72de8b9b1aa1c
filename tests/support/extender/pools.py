"""A short notation for pools: `a_pool(capacity=5)`, `licensed("a/x")`, `bound(pod)`."""

from typing import Any

from bursar.core.model.namespace import NamespaceObject
from bursar.core.model.pod_row import PodRow
from bursar.core.model.quantity import Quantity
from bursar.core.model.selectors.text import parse_selector
from bursar.core.pools.books import PoolBooks
from bursar.core.pools.pool import Pool, Share
from bursar.core.pools.refusal import PoolReason, PoolRefusal
from support.builders.pods import listed
from support.builders.quota_books import a_row, changed

LICENCE = "example.com/licence"


def a_pool(name: str = "pool", capacity: int = 5, resource: str = LICENCE, **more: Any) -> Pool:
    selector = more.pop("selector", None)
    return Pool(
        name=name,
        resource=resource,
        capacity=Quantity.parse(str(capacity)),
        selector=None if selector is None else parse_selector(selector),
        **more,
    )


def a_share(name: str, selector: str, maximum: int, **more: Any) -> Share:
    return Share(
        name=name,
        selector=parse_selector(selector),
        maximum=Quantity.parse(str(maximum)),
        **more,
    )


def a_space(name: str, labels: str = "") -> NamespaceObject:
    return NamespaceObject(name=name, labels=listed(labels))


def licensed(where: str, amount: int = 1, **facts: Any) -> PodRow:
    return a_row(where, f"cpu=1 {LICENCE}={amount}", gates=facts.pop("gates", ()), **facts)


def reasons(refusals: tuple[PoolRefusal, ...]) -> list[PoolReason]:
    return [each.reason for each in refusals]


def bound(row: PodRow, node: str = "node") -> PodRow:
    return changed(row, node_name=node)


def ended(row: PodRow) -> PodRow:
    return changed(row, phase="Succeeded")


def books_of(
    *pools: Pool, spaces: tuple[NamespaceObject, ...] = (), books: PoolBooks | None = None
) -> PoolBooks:
    """Books with the namespaces `a` and `b`, unless others are given."""
    books = PoolBooks() if books is None else books
    for space in spaces or (a_space("a"), a_space("b")):
        books.see_namespace(space)
    for pool in pools:
        books.see_pool(pool)
    return books


def account(books: PoolBooks, name: str = "pool") -> tuple[str, str, str]:
    """What is used, reserved and free."""
    found = next(each.account for each in books.states if each.pool.name == name)
    return tuple(str(number // 10**9) for number in (found.charged, found.promised, found.free))
