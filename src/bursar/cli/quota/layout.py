"""Quotas and the pods that wait for them, for people: kubectl's layout, and a table."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from bursar.app.counting.provenance import ChargePart, cost_text
from bursar.app.counting.uncounted import what_would_count
from bursar.app.quota.read_model import PodCharge, QuotaReport, ResourceLine
from bursar.cli.output.ages import UNKNOWN, age
from bursar.cli.output.formats import amount_or_dash, printable
from bursar.cli.output.tabwriter import aligned
from bursar.core.model.resources import ResourceList
from bursar.core.quota.queue import WaitingPod
from bursar.core.quota.scopes import ScopeRule

NAMESPACES_MAX: Final = 10
"""How many namespaces of a cluster-wide quota are named; the others are only counted."""
CHARGES_MAX: Final = 20
"""How many pods are listed with what counters charge for them; the others are only counted."""
NONE: Final = "-"
PROVISIONAL: Final = "charged for the pod until then"
RELEASED: Final = "about to be released"
QUEUE_COLUMNS: Final = (
    *("POSITION", "NAMESPACE", "POD", "PRIORITY", "AGE"),
    *("REASON", "LACKS", "AHEAD"),
)
COST_COLUMN: Final = "COUNTED AS"
"""Shown if a listed pod is counted otherwise than natively."""


# ------------------------------------------------------------------ quotas


def described_quota(report: QuotaReport) -> str:
    """A quota as kubectl describes it, with what it should show and what it does."""
    text = aligned("\n".join(_quota_lines(report)))
    if report.charges:
        text += "\nCharges by counters:\n" + aligned("\n".join(_charge_lines(report.charges)))
    return text


def _quota_lines(report: QuotaReport) -> Iterator[str]:
    quota = report.seen.quota
    yield f"Name:\t{printable(quota.key.name)}"
    if quota.selector is None:
        yield f"Namespace:\t{printable(quota.key.namespace)}"
    else:
        yield f"Namespaces:\t{printable(_listed(report.covered))}"
    yield f"Kind:\t{quota.key.kind.value}"
    if quota.scopes:
        yield f"Scopes:\t{printable(', '.join(map(_scope, quota.scopes)))}"
    if report.seen.status_problem:
        yield f"Status:\tcannot be read: {printable(report.seen.status_problem)}"
    for name in report.uncounted:
        yield f"Not counted:\t{printable(name)}: {what_would_count(name)}"
    yield "Resource\tUsed\tHard\tReported"
    yield "--------\t----\t----\t--------"
    for line in report.lines:
        yield _resource_line(line)


def _charge_lines(charges: Sequence[PodCharge]) -> Iterator[str]:
    yield "  Pod\tCounter\tAmounts\tReason"
    yield "  ---\t-------\t-------\t------"
    for charge in charges[:CHARGES_MAX]:
        for part in charge.parts:
            cells = (str(charge.pod), part.counter, _amounts(part), part.reason)
            yield "  " + "\t".join(map(printable, cells))
        if charge.provisional:
            cells = (str(charge.pod), NONE, _joined(charge.provisional), PROVISIONAL)
            yield "  " + "\t".join(map(printable, cells))
    rest = len(charges) - CHARGES_MAX
    if rest > 0:
        yield f"  and {rest} more pods; -o json lists all"


def _amounts(part: ChargePart) -> str:
    if part.amounts is None:
        return "not known yet"
    return _joined(part.amounts)


def _joined(amounts: ResourceList) -> str:
    return ",".join(f"{name}={amount}" for name, amount in sorted(amounts.items())) or "none"


def _resource_line(line: ResourceLine) -> str:
    amounts = f"{amount_or_dash(line.used)}\t{line.hard}\t{amount_or_dash(line.reported)}"
    mark = "  <- differs" if line.is_different else ""
    return f"{printable(line.resource)}\t{amounts}{mark}"


def _listed(namespaces: Sequence[str]) -> str:
    if not namespaces:
        return "none"
    rest = len(namespaces) - NAMESPACES_MAX
    more = f" and {rest} more" if rest > 0 else ""
    return ", ".join(namespaces[:NAMESPACES_MAX]) + more


def _scope(rule: ScopeRule) -> str:
    if rule.values:
        return f"{rule.scope} {rule.operator} ({', '.join(rule.values)})"
    return rule.scope if rule.operator == "Exists" else f"{rule.scope} {rule.operator}"


# ------------------------------------------------------------------ the queue


def queue_row(waiting: WaitingPod, now: datetime) -> tuple[str, ...]:
    """The cells of a waiting pod, under `QUEUE_COLUMNS`."""
    row = waiting.row
    created_s = row.stamp.created_s
    created = datetime.fromtimestamp(created_s, UTC) if created_s else None
    return (
        str(waiting.position),
        row.namespace,
        row.name,
        str(row.profile.priority or 0),
        UNKNOWN if created is None else age(created, now),
        RELEASED if waiting.reason is None else waiting.reason.value,
        _lacks(waiting) or NONE,
        _ahead(waiting),
    )


def cost_cell(parts: Sequence[ChargePart]) -> str:
    """The cell under `COST_COLUMN`."""
    return cost_text(parts) or NONE


def _lacks(waiting: WaitingPod) -> str:
    return ", ".join(
        f"{shortage.resource} {shortage.missing} (quota {shortage.quota.name})"
        for refusal in waiting.refusals
        for shortage in refusal.shortages
    )


def _ahead(waiting: WaitingPod) -> str:
    if not waiting.ahead:
        return NONE
    return f"{waiting.ahead_count}, first {waiting.ahead[0]}"
