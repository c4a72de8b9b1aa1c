"""`bursar peerpod`: rewrite peer pods in files, and choose instance types for them."""

from collections.abc import Sequence
from typing import Any

import click

from bursar.adapters.files.peerpods import RewrittenManifest, rewrite_files
from bursar.cli.errors.exit_codes import NO, OK, BadInputError
from bursar.cli.options import flag, one_of, shown
from bursar.cli.output.formats import printable
from bursar.cli.peerpods.options import (
    catalogue_options,
    settings_from,
    sizing_options,
    types_from,
)
from bursar.cli.reading.reading import Reading, files_options
from bursar.cli.verbs import Verbs
from bursar.core.peerpods.annotations import Rewrite
from bursar.core.peerpods.decision import Denied
from bursar.core.peerpods.names import VM_RESOURCE
from bursar.core.peerpods.settings import Mode, PeerPodSettings
from bursar.wire.documents.json_writing import json_text
from bursar.wire.documents.yaml_writing import require_finite, yaml_text
from bursar.wire.structs.fields import FieldError


@click.group(
    cls=Verbs,
    lazy={"instance": "bursar.cli.peerpods.instance:instance"},
    short_help="Rewrite peer pods and choose their instance types, offline.",
)
def peerpod() -> None:
    """Rewrite peer pods, whose containers run in a cloud VM, and choose their instance types.

    Reads files only; no cluster is contacted.
    """


@peerpod.command(short_help="Print pods as the webhook leaves them.")
@files_options
@one_of(
    "--mode",
    Mode.EFFECTIVE,
    "effective: what the pod needs at any one time; upstream: as upstream's webhook does.",
)
@sizing_options
@shown("--vm-resource", VM_RESOURCE, "Resource name that stands for one VM.")
@click.option(
    "--keep", multiple=True, help="Resource name that stays in the containers. Repeatable."
)
@flag("--default-mem", "Also write the memory size as annotation default_mem.")
@catalogue_options
@shown(
    "-o --output", "yaml", "How to print the result.", type=click.Choice(["yaml", "json", "patch"])
)
def rewrite(
    reading: Reading,
    mode: str,
    output: str,
    **chosen: Any,  # noqa: ANN401 - what click makes of the other options
) -> int:
    """Print every object of the files, with peer pods as the webhook leaves them.

    Pods are sized with the API server's defaults, which a webhook would see. With
    --catalogue the best instance type is written to the pod. A pod that is denied
    is left out, and the exit code is 1.
    """
    types = types_from(chosen) if chosen["catalogue"] else ()
    settings = settings_from(chosen, Mode(mode), catalogue=types)
    if reading.is_live:
        raise click.UsageError(
            "give manifests with -f or -k; the pods of a cluster have passed the webhook already"
        )
    objects = _rewritten(reading, settings)
    for each in objects:
        _print_messages(each)
    # Whether one object or a List is printed depends on the input, not on how many were denied.
    if output == "patch":
        _emit_patches([each for each in objects if each.decision is not None])
    else:
        _emit_documents(objects, output)
    return NO if any(map(_is_denied, objects)) else OK


def _rewritten(reading: Reading, settings: PeerPodSettings) -> tuple[RewrittenManifest, ...]:
    paths, stdin = reading.sources()
    objects = rewrite_files(paths, stdin, settings, is_recursive=reading.is_recursive)
    for each in objects:
        try:
            require_finite(each.written)
        except FieldError as error:
            raise BadInputError(printable(f"{each.kind} {each.subject}: {error}")) from None
    return objects


def _is_denied(each: RewrittenManifest) -> bool:
    return isinstance(each.decision, Denied)


def _print_messages(each: RewrittenManifest) -> None:
    subject = f"bursar: {each.kind} {each.subject}"
    match each.decision:
        case Denied(message):
            click.echo(printable(f"{subject}: denied: {message}"), err=True)
        case Rewrite(warnings=warnings):
            for warning in warnings:
                click.echo(printable(f"{subject}: {warning}"), err=True)
        case _:
            pass


def _emit_patches(pods: Sequence[RewrittenManifest]) -> None:
    """For one pod its patch alone; for several a list of patches with the names of their pods."""
    patches = [{"pod": each.subject, "patch": each.patch} for each in pods if not _is_denied(each)]
    if len(pods) != 1:
        click.echo(json_text(patches))
    elif patches:
        click.echo(json_text(patches[0]["patch"]))


def _emit_documents(objects: Sequence[RewrittenManifest], output: str) -> None:
    """For one object the object itself; else a List, which may be empty."""
    documents = [each.document for each in objects if not _is_denied(each)]
    if len(objects) == 1 and not documents:
        return
    listed = {"apiVersion": "v1", "kind": "List", "items": documents}
    whole: object = documents[0] if len(objects) == 1 else listed
    if output == "json":
        click.echo(json_text(whole))
    else:
        click.echo(yaml_text(whole), nl=False)
