"""Books with one quota that several namespaces share, and what happens to them in few words."""

from bursar.core.quota.books import Books
from bursar.core.quota.counting import NativeCounter
from bursar.core.quota.releases import ReleaseOutcome
from support.builders.quota_books import (
    UNGATED,
    a_key,
    a_namespace,
    a_quota,
    a_row,
    running,
)

NOW_S = 10_000
PATIENCE_S = 600
NAMESPACES = ("mallory", "alice", "bob")


def shared_books(hard="cpu=100", *, order="backfill", namespaces=NAMESPACES):
    books = Books(NativeCounter().count, patience_s=PATIENCE_S)
    books.advance(NOW_S)
    for name in namespaces:
        books.see_namespace(a_namespace(name))
    books.see_quota(a_quota("wide", hard, order=order))
    return books


def wait(books, where, cpu, **facts):
    row = a_row(where, f"cpu={cpu}", created_s=facts.pop("created_s", NOW_S), **facts)
    books.see_pod(row)
    return row


def run(books, where, cpu):
    books.see_pod(a_row(where, f"cpu={cpu}", gates=UNGATED))


def released(books):
    """The names of those who go now; all of them are seen running at once."""
    rows = [release.row for release in books.decide().releases]
    for row in rows:
        books.settle(row, ReleaseOutcome.LIFTED)
        books.see_pod(running(row))
    return [row.name for row in rows]


def holding(books):
    """The namespace that holds the shared quota against the others."""
    turn = books.waiting.turns.holding.get(a_key("wide"))
    return None if turn is None else turn.namespace
