"""`bursar agent quota-check`: what filesystems lack to measure volumes by project quotas."""

from collections.abc import Sequence

import click

from bursar.adapters.disk.quota_facts import read_facts
from bursar.app.devices.defaults import KUBELET_FOLDER
from bursar.cli.exit_codes import NO, OK, BadInputError
from bursar.cli.output.formats import Output, emit_document, output_option, printable
from bursar.core.storage.quota_check import MissingPart, QuotaFacts, missing_parts


@click.command(short_help="Say what filesystems lack for project quotas.")
@click.argument("folders", nargs=-1, type=click.Path(), metavar="[FOLDER]...")
@output_option
def quota_check(*, folders: Sequence[str], output: Output) -> int:
    """Say what filesystems lack for project quotas: features, mount options, kernel, rights.

    Run it on the node. FOLDER is kubelet's folder by default. Nothing is
    changed. The exit code is 1 if something is missing.
    """
    checked = [_check(folder) for folder in folders or (KUBELET_FOLDER,)]
    if output is Output.TABLE:
        for facts, missing in checked:
            _show(facts, missing)
    else:
        emit_document([_document(*each) for each in checked], output)
    return NO if any(missing for _, missing in checked) else OK


def _check(folder: str) -> tuple[QuotaFacts, tuple[MissingPart, ...]]:
    try:
        facts = read_facts(folder)
    except OSError as error:
        raise BadInputError(f"{printable(folder)}: {error.strerror}") from None
    return facts, missing_parts(facts)


def _show(facts: QuotaFacts, missing: Sequence[MissingPart]) -> None:
    where = f"{facts.kind or 'unknown filesystem'} on {facts.mount or 'an unknown mount'}"
    state = "project quotas are missing" if missing else "project quotas work"
    click.echo(printable(f"{facts.path}: {where}: {state}"))
    for each in missing:
        click.echo(printable(f"  {each.text}"))
        for command in each.commands:
            click.echo(printable(f"      {command}"))


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
