"""`bursar agent quota-check`: what filesystems lack to measure volumes by project quotas."""

from collections.abc import Sequence
from typing import Final

import click

from bursar.adapters.disk.quota_facts import read_facts
from bursar.app.devices.defaults import KUBELET_FOLDER
from bursar.cli.errors.exit_codes import NO, OK, BadInputError
from bursar.cli.output.formats import printable
from bursar.cli.output.listing import (
    NO_VALUE,
    Column,
    Format,
    Listing,
    Row,
    emit_listing,
    format_options,
)
from bursar.core.storage.quota_check import MissingPart, QuotaFacts, missing_parts

COLUMNS: Final = (
    *(Column("FOLDER"), Column("FILESYSTEM"), Column("MOUNT"), Column("WORKS")),
    Column("MISSING"),
)


@click.command(short_help="Say what filesystems lack for project quotas.")
@click.argument("folders", nargs=-1, type=click.Path(), metavar="[FOLDER]...")
@format_options
def quota_check(*, folders: Sequence[str], format: Format) -> int:
    """Say what filesystems lack for project quotas: features, mount options, kernel, rights.

    Run it on the node. FOLDER is kubelet's folder by default. Nothing is
    changed. The exit code is 1 if something is missing.
    """
    checked = [_check(folder) for folder in folders or (KUBELET_FOLDER,)]
    emit_listing(Listing(columns=COLUMNS, rows=tuple(_row(*each) for each in checked)), format)
    return NO if any(missing for _, missing in checked) else OK


def _check(folder: str) -> tuple[QuotaFacts, tuple[MissingPart, ...]]:
    try:
        facts = read_facts(folder)
    except OSError as error:
        raise BadInputError(f"{printable(folder)}: {error.strerror}") from None
    return facts, missing_parts(facts)


def _row(facts: QuotaFacts, missing: Sequence[MissingPart]) -> Row:
    return Row(
        cells=(
            facts.path,
            facts.kind or NO_VALUE,
            facts.mount or NO_VALUE,
            "no" if missing else "yes",
            ", ".join(each.what.value for each in missing) or NO_VALUE,
        ),
        document=_document(facts, missing),
        name=facts.path,
        text=_text(facts, missing),
    )


def _text(facts: QuotaFacts, missing: Sequence[MissingPart]) -> str:
    where = f"{facts.kind or 'unknown filesystem'} on {facts.mount or 'an unknown mount'}"
    state = "project quotas are missing" if missing else "project quotas work"
    lines = [f"{facts.path}: {where}: {state}"]
    for each in missing:
        lines += [f"  {each.text}", *(f"      {command}" for command in each.commands)]
    return "\n".join(map(printable, lines))


def _document(facts: QuotaFacts, missing: Sequence[MissingPart]) -> dict[str, object]:
    return {
        "folder": facts.path,
        "mount": facts.mount or None,
        "filesystem": facts.kind or None,
        "device": facts.source or None,
        "works": not missing,
        "missing": [
            {"what": each.what.value, "text": each.text, "commands": list(each.commands)}
            for each in missing
        ],
    }
