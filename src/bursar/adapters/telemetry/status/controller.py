"""The status report of a controller: leadership, pods, queues, ledger and caches.

The books keep most of these numbers. Only the search for the oldest waiting pod looks at groups
of pods; it is bounded by `GROUPS_MAX`, so that a report never blocks the event loop for long.
"""

from datetime import datetime
from typing import Final

from bursar.adapters.serving.status_page import Report, Value
from bursar.adapters.telemetry.controller.families import Limited
from bursar.adapters.telemetry.controller.metrics import reconcilers
from bursar.adapters.telemetry.status.process import bytes_per_pod, process_section
from bursar.app.cluster.observe import RunningInformer
from bursar.app.controller.controller import Controller
from bursar.app.controller.term import Term
from bursar.core.quota.views.queue import count_waiting, oldest_wait_s

GROUPS_MAX: Final = 10_000
"""How many groups of waiting pods are searched for the oldest pod."""


def controller_status(controller: Controller, limiter: Limited, uptime_s: float) -> Report:
    term = controller.term
    process = process_section(uptime_s)
    report: dict[str, dict[str, Value]] = {
        "process": process,
        "leadership": {
            "leader": controller.election.is_leader,
            "holder": controller.election.holder,
            "synced": term is not None and term.loop.is_synced,
            "problem": controller.readiness_problem or "none",
        },
        "requests": {
            "in_flight": limiter.in_flight,
            "waiting": limiter.waiting,
            "limit": limiter.limit,
            "throttled": limiter.throttled_total,
        },
    }
    if term is not None:
        resident = process["resident_bytes"]
        assert resident is None or isinstance(resident, int)
        report |= {
            "pods": _pods(term, controller.clock.now(), resident),
            "waiting_by_reason": _reasons(term),
            "queues": _queues(controller, term),
            "ledger": _ledger(term),
            "caches": _objects(term.sources.informers()),
            "cache_age_seconds": _ages(term.sources.informers()),
        }
    return report


def _pods(term: Term, now: datetime, resident: int | None) -> dict[str, Value]:
    known = len(term.sources.books.pods)
    waiting, blocked = len(term.books.waiting), sum(term.books.blocked_counts.values())
    since_s = oldest_wait_s(term.books, GROUPS_MAX)
    return {
        "known": known,
        "charged": term.books.ledger.pod_count,
        "waiting": waiting + blocked,
        "undecided": count_waiting(term.books).undecided,
        "oldest_waiting_seconds": None if since_s is None else int(now.timestamp()) - since_s,
        "resident_bytes_per_pod": bytes_per_pod(resident, known),
    }


def _reasons(term: Term) -> dict[str, Value]:
    counts = count_waiting(term.books).by_reason
    return {reason.value: count for reason, count in counts.items()}


def _queues(controller: Controller, term: Term) -> dict[str, Value]:
    loops = reconcilers(term, controller.certificates)
    return {
        "releases_in_flight": term.books.pending_release_count,
        "events": sum(each.waiting for each in controller.recorders),
        "full_namespaces": len(term.queue_limit.full.names),
        **{f"reconcile_{name}": each.pending for name, each in loops.items()},
    }


def _ledger(term: Term) -> dict[str, Value]:
    drift = term.drift.latest
    return {
        "quotas": sum(len(each) for each in term.sources.books.quotas),
        "reservations": term.books.ledger.reservation_count,
        "resize_promises": len(term.books.growth),
        "drift_accounts": None if drift is None else drift.accounts,
        "recount_seconds": None if drift is None else drift.count_seconds,
    }


def _objects(informers: tuple[RunningInformer, ...]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for each in informers:
        found[str(each.resource)] = len(each)
    return found


def _ages(informers: tuple[RunningInformer, ...]) -> dict[str, Value]:
    return {str(each.resource): each.staleness_seconds for each in informers}
