"""`bursar dump`: what a command would read, without secrets, for bug reports and work offline."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

import click

from bursar.app.cluster.kinds import (
    LIMIT_RANGES,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    RUNTIME_CLASSES,
)
from bursar.app.cluster.reading.wanted import Wanted
from bursar.app.quota.kinds import QUOTAS
from bursar.cli.errors.exit_codes import OK, BadInputError
from bursar.cli.output.formats import Output, emit_document
from bursar.cli.reading.reading import Objects, Reading, reading_once_options
from bursar.core.model.namespace import DEFAULT_NAMESPACE
from bursar.core.quota.quota import QuotaKind

if TYPE_CHECKING:
    from bursar.app.cluster.ports import Json, Resource
    from bursar.app.reports.redaction import Object

_QUOTAS: Final = (
    QUOTAS[QuotaKind.NATIVE],
    QUOTAS[QuotaKind.NAMESPACED],
    QUOTAS[QuotaKind.CLUSTER],
)
_ADMISSION: Final = (LIMIT_RANGES, RUNTIME_CLASSES, PRIORITY_CLASSES)
KINDS: Final = {
    "describe": (NODES, PODS, NAMESPACES, *_QUOTAS, *_ADMISSION),
    "explain": (NODES, PODS, NAMESPACES, *_QUOTAS),
    "queue": (PODS, NAMESPACES, *_QUOTAS),
    "top": (NODES, PODS, NAMESPACES, *_QUOTAS),
    "up": (NODES, PODS, NAMESPACES, *_QUOTAS, *_ADMISSION),
}
"""The kinds that each verb reads of a cluster."""
WORKLOAD_KINDS: Final = frozenset(
    {"CronJob", "DaemonSet", "Deployment", "HorizontalPodAutoscaler", "Job", "PodTemplate"}
    | {"ReplicaSet", "ReplicationController", "StatefulSet"}
)
"""Kinds that verbs read of files as well."""


@click.command(short_help="Write the objects that a command would read, without secrets.")
@reading_once_options
@click.option(
    "--for",
    "verb",
    type=click.Choice(sorted(KINDS)),
    help="Write only what this command reads. Default: what any of them reads.",
)
@click.option(
    "--anonymize",
    is_flag=True,
    help="Give namespaces, pods, nodes and owners other names. Labels and images stay.",
)
@click.option(
    *("-o", "--output"),
    type=click.Choice([Output.YAML.value, Output.JSON.value]),
    default=Output.YAML.value,
    show_default=True,
    help="Format of the output.",
)
def dump(*, reading: Reading, verb: str | None, anonymize: bool, output: str) -> int:
    """Write the objects of a cluster, or of files, that a command would read, as a List.

    `bursar COMMAND -f FILE` then gives the answer that the command gives on the
    cluster. Secrets, values of environment variables, arguments, commands,
    probes, data of ConfigMaps and most annotations are removed; names, labels,
    images and amounts are kept. The command reads all namespaces of a cluster,
    unless -n names one.
    """
    kinds = (
        KINDS[verb] if verb else tuple(dict.fromkeys(k for each in KINDS.values() for k in each))
    )
    wanted = [
        Wanted(
            resource=kind,
            namespace=(reading.namespace or "") if kind.is_namespaced else "",
            is_required=False,
            may_be_absent=True,
            is_decoded=False,
        )
        for kind in kinds
    ]

    objects = reading.read(wanted)
    read = _of_cluster(objects) if reading.is_live else _of_files(reading, objects, kinds)
    items = _written([each for each in read if _is_selected(each, objects)])
    if anonymize:
        from bursar.app.reports.anonymity import Anonymous  # noqa: PLC0415 - rarely used

        items = Anonymous().objects(items)
    if not items:
        raise BadInputError(f"{reading}: no object that Bursar reads")
    emit_document({"apiVersion": "v1", "kind": "List", "items": items}, Output(output))
    return OK


def _of_cluster(objects: Objects) -> "Iterator[Object]":
    for resource, bodies in objects.bodies.items():
        for body in bodies:
            value = json.loads(body)
            yield {"apiVersion": resource.api_version, "kind": resource.kind, **value}


def _of_files(
    reading: Reading, objects: Objects, kinds: "Iterable[Resource]"
) -> "Iterator[Object]":
    from bursar.adapters.files.manifests import plain  # noqa: PLC0415 - imports YAML

    known = {kind.kind: kind.is_namespaced for kind in kinds} | dict.fromkeys(WORKLOAD_KINDS, True)
    for value in objects.manifests.values:
        kind = str(value["kind"])
        read = {name: plain(part) for name, part in value.items()}
        if kind in known and (not known[kind] or reading.shown_namespace in {"", _namespace(read)}):
            yield read


def _namespace(value: "Object") -> str:
    metadata = value.get("metadata")
    namespace = metadata.get("namespace") if isinstance(metadata, Mapping) else None
    return str(namespace or DEFAULT_NAMESPACE)


def _is_selected(value: "Object", objects: Objects) -> bool:
    metadata = value.get("metadata")
    held: Mapping[str, Json] = metadata if isinstance(metadata, Mapping) else {}
    return objects.is_selected(
        str(value.get("kind")), str(held.get("namespace") or ""), str(held.get("name"))
    )


def _written(values: "list[Object]") -> "list[Object]":
    from bursar.app.reports.redaction import (  # noqa: PLC0415 - only this verb needs it
        annotations_that_select,
        redacted,
    )

    cluster_wide = [each for each in values if each["kind"] == QuotaKind.CLUSTER.value]
    keys = annotations_that_select(cluster_wide)
    return [kept for each in values if (kept := redacted(each, keys)) is not None]
