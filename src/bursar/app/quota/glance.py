"""Quotas at a glance: how full each is, and for each pod at the gate what it waits for."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bursar.core.model.resources import ResourceList
from bursar.core.quota.books import Books
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.queue import waiting_list
from bursar.core.quota.quota import QuotaKey
from bursar.core.quota.refusal import explanation
from bursar.core.quota.statement import statement_of


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaLine:
    key: QuotaKey
    hard: ResourceList
    used: ResourceList
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    quotas: tuple[QuotaLine, ...] = ()
    reasons: Mapping[PodKey, str] = field(default_factory=dict)
    """Why pods wait at the gate, in order of release."""


NOTHING_SEEN = Glance()


def glance(books: Books) -> Glance:
    """Look at the books as they are."""
    covered = sorted(books.coverage.quotas(), key=lambda each: each.quota.key)
    statements = ((each.quota.key, statement_of(each)) for each in covered)
    return Glance(
        quotas=tuple(
            QuotaLine(
                key=key,
                hard=statement.total.hard,
                used=statement.total.used,
                summary=statement.summary,
            )
            for key, statement in statements
        ),
        reasons={
            PodKey(waiting.row.namespace, waiting.row.name): explanation(waiting.refusals)
            for waiting in waiting_list(books, ())
            if waiting.refusals
        },
    )
