"""The operator's part of `bursar manifests`, and what the operator would install for an object."""

import sys

import click

from bursar.adapters.files.manifests import read_objects_as_written
from bursar.app.install.documents import Document
from bursar.app.operator.manifests import (
    OperatorInstallation,
    operator_documents,
    split_definitions,
)
from bursar.app.operator.rendering import KUBEVIRT_CLASS, Surroundings, rendered
from bursar.app.quota.kinds import AAQS
from bursar.app.quota.managed.applied_usage import AppliedUsage
from bursar.cli.errors.exit_codes import BadInputError
from bursar.cli.install.packaged_definitions import packaged_definitions
from bursar.cli.install.workload_arguments import Chosen, applied_option
from bursar.wire.aaq import decode_aaq
from bursar.wire.documents.json_writing import json_text


def operator_part(chosen: Chosen) -> tuple[Document, ...]:
    """Raises `click.UsageError`."""
    try:
        installation = OperatorInstallation(
            image=str(chosen["image"]),
            namespace=str(chosen["namespace"]),
            definitions=packaged_definitions(),
            options=applied_option(chosen),
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    return operator_documents(installation)


def installed_documents(
    file: str, chosen: Chosen, *, has_mutating_policies: bool
) -> list[Document]:
    """What the operator installs for the AAQ object in a file. Raises `BadInputError`."""
    found = [body for body, _ in read_objects_as_written([file], sys.stdin.buffer)]
    objects = [each for each in found if each.get("kind") == AAQS.kind]
    if len(objects) != 1:
        raise BadInputError(f"{file}: one AAQ object is expected, found {len(objects)}")
    _, others = split_definitions(packaged_definitions())
    around = Surroundings(
        namespace=str(chosen["namespace"]),
        image=str(chosen["image"]),
        replicas=int(str(chosen["replicas"])),
        has_kubevirt_class=chosen["priority_class"] == KUBEVIRT_CLASS,
        has_mutating_policies=has_mutating_policies,
        applied=AppliedUsage(str(chosen["applied_quotas"])),
        definitions=others,
    )
    try:
        outcome = rendered(decode_aaq(json_text(objects[0]).encode()), around)
    except ValueError as error:
        raise BadInputError(f"{file}: {error}") from None
    for sentence in outcome.ignored:
        click.echo(f"bursar: no effect: {sentence}", err=True)
    return list(outcome.every)
