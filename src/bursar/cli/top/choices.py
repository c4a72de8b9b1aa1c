"""The options that several subverbs of `bursar top` share: `--resource` and `--group-by`."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import click

from bursar.app.reports.top.grouping import (
    LABEL_PREFIX,
    GroupBy,
    Grouping,
    GroupingError,
    parse_grouping,
)
from bursar.cli.errors.exit_codes import BadInputError
from bursar.cli.output.formats import printable
from bursar.core.model.names import qualified_name_errors


def names_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `[NAME]...`; the command receives `names: tuple[str, ...]`."""
    return click.argument("names", metavar="[NAME]...", nargs=-1)(command)


def require_found(
    what: str, names: Sequence[str], found: Collection[str], shown_namespace: str
) -> None:
    """Raise `BadInputError` for the first name that was not found."""
    for name in names:
        if name not in found:
            where = f" in namespace {printable(shown_namespace)}" if shown_namespace else ""
            raise BadInputError(f"no {what} called {printable(name)}{where}")


def resource_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--resource`; the command receives `resources: tuple[str, ...]`."""
    return click.option(
        *("--resource", "resources"),
        multiple=True,
        metavar="NAME",
        callback=lambda _context, _parameter, given: _resources_from(given),
        help="Resource to show, such as cpu or nvidia.com/gpu. Repeatable, or with commas.",
    )(command)


def group_option(
    *choices: GroupBy,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add `--group-by`; the command receives `group_by: Grouping | None`."""
    words = [f"{LABEL_PREFIX}KEY" if by is GroupBy.LABEL else by.value for by in choices]
    return click.option(
        "--group-by",
        default="",
        metavar="|".join(words),
        callback=lambda _context, _parameter, given: _grouping_from(given, choices),
        help="Group the rows, and show the sum of each group.",
    )


def _resources_from(given: Sequence[str]) -> tuple[str, ...]:
    names = [name for text in given for name in text.split(",") if name]
    for name in names:
        if qualified_name_errors(name):
            raise BadInputError(f"--resource: {printable(name)} is not the name of a resource")
    return tuple(dict.fromkeys(names))


def _grouping_from(text: str, choices: Sequence[GroupBy]) -> Grouping | None:
    if not text:
        return None
    try:
        return parse_grouping(text, choices)
    except GroupingError as error:
        raise BadInputError(f"--group-by: {printable(str(error))}") from None
