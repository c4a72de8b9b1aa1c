"""Pods, nodes and their usage as the subverbs of `bursar top` read them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from bursar.app.cluster.metrics_kinds import NODE_METRICS, POD_METRICS
from bursar.app.reports.top.consumption import CountedPod, counted_pods
from bursar.cli.output.formats import printable
from bursar.cli.reading.reading import Objects
from bursar.core.model.defaulting import node_with_defaults, with_defaults
from bursar.core.model.node import Node
from bursar.core.model.pod import Pod
from bursar.core.model.resources import ResourceList
from bursar.wire.usage import decode_usage

if TYPE_CHECKING:
    from bursar.app.cluster.ports import Resource

METRICS = (NODE_METRICS, POD_METRICS)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopObjects:
    """The pods and nodes that a subverb of `bursar top` adds up."""

    pods: Sequence[CountedPod]
    nodes: Sequence[Node]
    node_usage: dict[str, ResourceList]
    templates: int
    """Workloads whose pods do not exist yet."""

    def nothing(self, what: str, shown_namespace: str = "") -> str:
        """The message if there is nothing to list."""
        where = f" in namespace {printable(shown_namespace)}" if shown_namespace else ""
        text = f"no {what} found{where}"
        if self.templates:
            text += (
                f"; pods of {self.templates} workloads do not exist yet "
                "(bursar describe pod shows what they will request)"
            )
        return text


def top_objects(objects: Objects) -> TopObjects:
    """Pods, nodes and usage of what was read, with the API server's defaults.

    Metrics that cannot be read are left out.
    """
    manifests = objects.manifests
    usage = _usage(objects, POD_METRICS)
    return TopObjects(
        pods=counted_pods(map(placed, manifests.pods), usage),
        nodes=[node_with_defaults(node) for node in manifests.nodes],
        node_usage={name: amounts for (_, name), amounts in _usage(objects, NODE_METRICS).items()},
        templates=len(manifests.templates),
    )


def placed(pod: Pod) -> Pod:
    """The pod with its defaults, in the namespace in which kubectl would create it."""
    return with_defaults(pod.with_namespace())


def _usage(objects: Objects, resource: "Resource") -> dict[tuple[str, str], ResourceList]:
    bodies: Iterable[bytes] = objects.manifests.bodies.get(resource, ())
    usage: dict[tuple[str, str], ResourceList] = {}
    for body in bodies:
        try:
            measured = decode_usage(body)
        except ValueError as error:
            line = f"left out: {resource.kind}: {error}"
            click.echo(f"bursar: {printable(line)}", err=True)
        else:
            usage[measured.namespace, measured.name] = measured.amounts
    return usage
