"""An explanation as text for people, at most 80 columns wide; all nodes with `-o wide`."""

import textwrap
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Final

import click

from bursar.app.reports.explain import Placement, PodExplanation
from bursar.cli.explain import document
from bursar.cli.explain.wording import (
    obstacle_details,
    pod_name,
    remedy_text,
    too_large_text,
)
from bursar.cli.output.formats import GAP, cells_of, emit_table, printable
from bursar.cli.output.listing import Column, Listing, Row
from bursar.core.placement.fit import Shortfall
from bursar.core.placement.message import event_text
from bursar.core.placement.remedies.obstacles import NodeVerdict
from bursar.core.placement.vector import as_quantity

WIDTH: Final = 80
LABEL_WIDTH: Final = 10
MISSING_COLUMNS: Final = ("RESOURCE", "REQUESTED", "ALLOCATABLE", "USED", "MISSING")
WIDE_COLUMNS: Final = ("NODE", "FITS", "REFUSED BY", "REASONS", *MISSING_COLUMNS)
LIST_COLUMNS: Final = (
    *(Column("NAMESPACE"), Column("POD"), Column("ANSWER"), Column("NODE", is_wide=True)),
    Column("WHY"),
)
WHY_WIDTH_MIN: Final = 20
ABSENT: Final = "-"


def emit_explanation(found: PodExplanation, *, wide: bool) -> None:
    """Print one pod."""
    _emit_field("Pod:", pod_name(found.pod))
    if found.owner:
        _emit_field("Template:", found.owner)
    _emit_field("Answer:", f"{found.answer.value}: {found.summary}")
    placement = found.placement
    if placement is not None and placement.message:
        _emit_field("Event:", event_text(placement.message))
    if found.scheduler_said and placement is not None:
        _emit_scheduler(found.scheduler_said, placement)
    if placement is not None:
        _emit_placement(placement, wide=wide)
    for fate in found.fates:
        if fate.sentence not in found.summary:
            _emit_field("Status:", f"{fate.subject}: {fate.sentence}")
    for step in found.next_steps:
        _emit_field("Next:", step)
    if found.unchecked:
        click.echo("Not checked:")
        for line in found.unchecked:
            _emit_item(line)


def _emit_scheduler(said: str, placement: Placement) -> None:
    """What the scheduler wrote, if it is something else; it may have looked at an older state."""
    if said != placement.message:
        _emit_field("Written:", f"the scheduler last wrote: {said}")


def _emit_placement(placement: Placement, *, wide: bool) -> None:
    if placement.too_large:
        click.echo("Larger than any node:")
        for each in placement.too_large:
            _emit_item(too_large_text(each))
    if wide:
        click.echo("Nodes:")
        rows = [row for verdict in placement.verdicts for row in _wide_rows(verdict)]
        emit_table(WIDE_COLUMNS, rows, indent=2)
    elif not all(verdict.fits for verdict in placement.verdicts):
        click.echo("Nodes:")
        for group in _grouped(placement.verdicts):
            _emit_group(group)
    if placement.remedies:
        click.echo("To let it run, do one of these:")
        for remedy in placement.remedies:
            _emit_item(remedy_text(remedy))


def _grouped(verdicts: Sequence[NodeVerdict]) -> list[list[NodeVerdict]]:
    """Nodes with the same reasons together, the largest group first."""
    groups: dict[object, list[NodeVerdict]] = {}
    for verdict in verdicts:
        reasons = () if verdict.rejection is None else verdict.rejection.reasons
        groups.setdefault((verdict.filters, reasons), []).append(verdict)
    return sorted(groups.values(), key=lambda group: -len(group))


def _emit_group(group: Sequence[NodeVerdict]) -> None:
    closest = min(group, key=lambda verdict: (_missing_part(verdict), verdict.node.name))
    names = closest.node.name if len(group) == 1 else f"{len(group)} nodes"
    if closest.rejection is None:
        _emit_item(f"{names}: fits")
        return
    first, *others = (each.value for each in closest.filters)
    more = f"; also {', '.join(others)}" if others else ""
    which = f"; the closest is {closest.node.name}" if len(group) > 1 else ""
    text = f"{names}: {', '.join(closest.rejection.reasons)} ({first}{more}){which}"
    _emit_item("; ".join((text, *obstacle_details(closest))))
    if closest.shortfalls:
        rows = [_missing_row(lack) for lack in closest.shortfalls]
        emit_table(MISSING_COLUMNS, rows, indent=4)


def _missing_part(verdict: NodeVerdict) -> Fraction:
    parts = (Fraction(lack.missing, lack.requested) for lack in verdict.shortfalls)
    return max(parts, default=Fraction(0))


def _missing_row(lack: Shortfall) -> tuple[str, ...]:
    return (
        lack.resource,
        str(lack.requested_amount),
        str(as_quantity(lack.resource, lack.allocatable)),
        str(as_quantity(lack.resource, lack.used)),
        str(lack.missing_amount),
    )


def _wide_rows(verdict: NodeVerdict) -> Iterator[tuple[str, ...]]:
    reasons = () if verdict.rejection is None else verdict.rejection.reasons
    head = (
        verdict.node.name,
        "yes" if verdict.fits else "no",
        ",".join(each.value for each in verdict.filters) or ABSENT,
        "; ".join((", ".join(reasons), *obstacle_details(verdict))) or ABSENT,
    )
    if not verdict.shortfalls:
        yield (*head, *(ABSENT for _ in MISSING_COLUMNS))
    for lack in verdict.shortfalls:
        yield (*head, *_missing_row(lack))


def listing(
    found: Sequence[PodExplanation], *, is_cut: bool = False, is_whole: bool = False
) -> Listing:
    """The pods that do not run, or with `is_whole` all of them, each with the reason.

    With `is_cut`, reasons are cut to the width.
    """
    chosen = [each for each in found if is_whole or not each.answer.is_good]
    heads = {"NAMESPACE": _namespace, "POD": _name, "ANSWER": _answer}
    taken = sum(
        max([len(head), *(cells_of(printable(text(each))) for each in chosen)]) + GAP
        for head, text in heads.items()
    )
    room = max(WIDTH - taken, WHY_WIDTH_MIN) if is_cut else None
    rows = [_list_row(each, room) for each in chosen]
    nothing = f"all {len(found)} pods run, have succeeded or would fit" if found else "no pod found"
    return Listing(columns=LIST_COLUMNS, rows=tuple(rows), nothing=nothing)


def _namespace(each: PodExplanation) -> str:
    return each.pod.namespace


def _name(each: PodExplanation) -> str:
    return each.pod.name


def _answer(each: PodExplanation) -> str:
    return each.answer.value


def _cut(text: str, room: int | None) -> str:
    return text if room is None or len(text) <= room else f"{text[: room - 3]}..."


def _list_row(each: PodExplanation, room: int | None) -> Row:
    pod = each.pod
    # The column before this one says already that the pod waits for a quota.
    why = _cut(each.summary.removeprefix("the pod waits for a quota: "), room)
    return Row(
        cells=(_namespace(each), _name(each), _answer(each), pod.node_name or ABSENT, why),
        document=document.as_dict(each),
        name=f"pod/{pod.name}",
    )


def _emit_field(label: str, text: str) -> None:
    lines = textwrap.wrap(
        printable(text), WIDTH - LABEL_WIDTH, break_on_hyphens=False, break_long_words=False
    )
    for number, line in enumerate(lines or [""]):
        click.echo(f"{'' if number else label:<{LABEL_WIDTH}}{line}".rstrip())


def _emit_item(text: str) -> None:
    wrapped = textwrap.fill(
        printable(text),
        WIDTH,
        initial_indent="  - ",
        subsequent_indent="    ",
        break_on_hyphens=False,
        break_long_words=False,
    )
    click.echo(wrapped)
