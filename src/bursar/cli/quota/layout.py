"""Quotas and the pods that wait for them, for people: kubectl's layout, and a table."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from textwrap import wrap
from typing import Final

from bursar.app.counting.provenance import ChargePart, cost_text
from bursar.app.counting.uncounted import what_would_count
from bursar.app.quota.views.read_model import PodCharge, QuotaReport, ResourceLine
from bursar.cli.output.ages import UNKNOWN, age
from bursar.cli.output.formats import amount_or_dash, printable
from bursar.cli.output.listing import Column, Row
from bursar.cli.output.tabwriter import aligned
from bursar.cli.quota.document import waiting_as_dict
from bursar.core.model.problem import some_of
from bursar.core.model.quantity import ZERO, Quantity
from bursar.core.model.resources import ResourceList
from bursar.core.quota.scopes import ScopeRule
from bursar.core.quota.views.queue import WaitingPod

NAMESPACES_MAX: Final = 10
"""How many namespaces of a cluster-wide quota are named; the others are only counted."""
CHARGES_MAX: Final = 20
"""How many pods are listed with what counters charge for them; the others are only counted."""
NONE: Final = "-"
LINE_LENGTH: Final = 80
"""Sentences below the table are folded there, whatever the width of the terminal."""
PROVISIONAL: Final = "charged for the pod until then"
RELEASED: Final = "released soon"
QUEUE_COLUMNS: Final = (
    *(Column("POSITION"), Column("NAMESPACE"), Column("POD")),
    *(Column("PRIORITY", is_wide=True), Column("AGE"), Column("REASON"), Column("LACKS")),
    *(Column("QUOTA", is_wide=True), Column("AHEAD", is_wide=True)),
    Column("COUNTED AS", is_wide=True),
)


# ------------------------------------------------------------------ quotas


def described_quota(report: QuotaReport) -> str:
    """A quota as kubectl describes it, with what it should show and what it does."""
    text = aligned("\n".join(_quota_lines(report)))
    for remark in _remarks(report):
        text += "\n" + "\n".join(
            wrap(
                printable(remark),
                LINE_LENGTH,
                subsequent_indent="  ",
                break_long_words=False,
                break_on_hyphens=False,
            )
        )
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
    for number, rule in enumerate(quota.scopes):
        yield f"{'' if number else 'Scopes:'}\t{printable(_scope(rule))}"
    yield "Resource\tUsed\tHard\t%\tReported"
    yield "--------\t----\t----\t-\t--------"
    for line in report.lines:
        yield _resource_line(line)


def _remarks(report: QuotaReport) -> Iterator[str]:
    """What is wrong with the quota, a sentence each."""
    if report.seen.status_problem:
        yield f"Status: cannot be read: {report.seen.status_problem}"
    if report.ungated:
        yield (
            f"Not gated: {_listed(report.ungated)}: the labels of the namespace do not match "
            "--namespace-selector, so this quota holds no pod there"
        )
    if report.undescribed:
        yield f"Gating not known: {_listed(report.undescribed)}: the Namespace was not read"
    why: dict[str, list[str]] = {}
    for name in report.uncounted:
        why.setdefault(what_would_count(name), []).append(name)
    for message, names in why.items():
        yield f"Not counted: {', '.join(names)}: {message}"


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
    share = NONE if line.percent is None else f"{line.percent}%"
    marks = [
        *(["over the limit"] if line.is_over else []),
        *(["differs"] if line.is_different else []),
        *(["never counted"] if line.is_uncounted else []),
    ]
    mark = f"  <- {', '.join(marks)}" if marks else ""
    amounts = f"{amount_or_dash(line.used)}\t{line.hard}\t{share}"
    return f"{printable(line.resource)}\t{amounts}\t{amount_or_dash(line.reported)}{mark}"


def _listed(namespaces: Sequence[str]) -> str:
    return some_of(namespaces, NAMESPACES_MAX) or "none"


def _scope(rule: ScopeRule) -> str:
    if rule.values:
        return f"{rule.scope} {rule.operator} ({', '.join(rule.values)})"
    return rule.scope if rule.operator == "Exists" else f"{rule.scope} {rule.operator}"


# ------------------------------------------------------------------ the queue


def queue_row(waiting: WaitingPod, cost: Sequence[ChargePart], now: datetime) -> Row:
    """A waiting pod, under `QUEUE_COLUMNS`."""
    row = waiting.row
    created_s = row.stamp.created_s
    created = datetime.fromtimestamp(created_s, UTC) if created_s else None
    shortages = [each for refusal in waiting.refusals for each in refusal.shortages]
    # Several quotas may lack the same; the largest amount is what has to become free.
    missing: dict[str, Quantity] = {}
    for each in shortages:
        missing[each.resource] = max(missing.get(each.resource, ZERO), each.missing)
    return Row(
        cells=(
            str(waiting.position),
            row.namespace,
            row.name,
            str(row.profile.priority or 0),
            UNKNOWN if created is None else age(created, now),
            RELEASED if waiting.reason is None else waiting.reason.value,
            ", ".join(f"{name} {amount}" for name, amount in missing.items()) or NONE,
            ", ".join(dict.fromkeys(each.quota.name for each in shortages)) or NONE,
            _ahead(waiting),
            cost_text(cost) or NONE,
        ),
        document=waiting_as_dict(waiting, cost),
        name=f"pod/{row.name}",
        order={"AGE": -created_s},
    )


def _ahead(waiting: WaitingPod) -> str:
    if not waiting.ahead:
        return NONE
    return f"{waiting.ahead_count}, first {waiting.ahead[0]}"
