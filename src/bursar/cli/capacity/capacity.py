"""`bursar capacity`: what nodes offer of extended resources, looked at and set by hand."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import click

from bursar.app.capacity.override import OverrideRequest, OverrideResult, override_nodes
from bursar.app.capacity.places import CAPACITY_CONFIG
from bursar.app.capacity.sources import (
    CapacityPlaces,
    read_declared,
    read_node,
    read_nodes,
    read_rows,
)
from bursar.app.capacity.usage import ExtendedUsage, usage_of
from bursar.app.cluster.informer.store import Sighting
from bursar.app.cluster.kinds import NODES, PODS
from bursar.app.cluster.reading.wanted import Wanted
from bursar.app.names import OWN_NAMESPACE
from bursar.cli.capacity.options import places_from, preset_options
from bursar.cli.errors.exit_codes import NO, OK, BadInputError
from bursar.cli.live_cluster import LiveCluster, answer_of, cluster_options, live_cluster
from bursar.cli.output.formats import (
    Output,
    amount_or_dash,
    emit_document,
    output_option,
    printable,
)
from bursar.cli.output.listing import (
    Column,
    Format,
    Listing,
    ListingPrinter,
    Row,
    format_options,
)
from bursar.cli.reading.reading import Reading, reading_nodes_options
from bursar.cli.selectors import selector_from
from bursar.cli.verbs import Verbs
from bursar.core.model.defaulting import with_defaults
from bursar.core.model.names import is_extended
from bursar.core.model.pod_row import row_of
from bursar.core.model.quantity import ZERO, Quantity
from bursar.core.peerpods.capacity import (
    CapacityAction,
    CapacityNode,
    Declaration,
    Settlement,
    amount_problem,
    resource_problem,
)
from bursar.core.peerpods.names import VM_RESOURCE
from bursar.wire.capacity import decode_capacity_node

COLUMNS: Final = (
    *(Column("NODE"), Column("RESOURCE"), Column("CAPACITY", is_wide=True)),
    *(Column("ALLOCATABLE"), Column("USED"), Column("FREE"), Column("OWNER")),
    Column("OVERRIDE", is_wide=True),
)
NOTHING_OFFERED: Final = "none"

_DIGITS: Final = re.compile(r"-?[0-9]{1,20}", re.ASCII)


@click.group(cls=Verbs, short_help="Show and set the capacity of extended resources on nodes.")
def capacity() -> None:
    """Show and set the capacity of extended resources on nodes."""


selector_option = click.option(
    "-l", "--selector", default="", help="Label selector of the nodes, instead of a name."
)
force_option = click.option(
    "--force",
    "is_forced",
    is_flag=True,
    help="Change capacity that is in use or that another component keeps.",
)


@capacity.command(name="set", short_help="Set the capacity of nodes and keep it.")
@click.argument("names", metavar="[NODE] RESOURCE=AMOUNT...", nargs=-1, required=True)
@selector_option
@force_option
@cluster_options
@output_option
def set_(
    *,
    names: tuple[str, ...],
    selector: str,
    is_forced: bool,
    kubeconfig: str | None,
    context: str,
    output: Output,
) -> int:
    """Set the capacity of an extended RESOURCE on a node to AMOUNT; `none` removes it.

    The amount is also written to an annotation of the node, the override. It wins
    over the capacity that is declared for many nodes, and a running controller
    restores it if another component removes it. Without --force, the command does
    not change an amount that pods use or that another component has set.
    """
    node, assignments = _split(names, selector)
    wish = OverrideRequest(amounts=_amounts(assignments), is_forced=is_forced)
    target = _Target(node=node, selector=selector, kubeconfig=kubeconfig, context=context)
    return _say(answer_of(target.change(wish)), output)


@capacity.command(short_help="Remove capacity set by hand; the declared capacity applies again.")
@click.argument("names", metavar="[NODE] RESOURCE...", nargs=-1, required=True)
@selector_option
@force_option
@click.option(
    *("-n", "--namespace"),
    default=OWN_NAMESPACE,
    show_default=True,
    help=f"Namespace of the installation and of the ConfigMap {CAPACITY_CONFIG}.",
)
@preset_options
@cluster_options
@output_option
def unset(  # noqa: PLR0913 - one for each option
    *,
    names: tuple[str, ...],
    selector: str,
    is_forced: bool,
    namespace: str,
    peerpods_namespace: str,
    peerpods_nodes: str,
    kubeconfig: str | None,
    context: str,
    output: Output,
) -> int:
    """Remove the override of a RESOURCE from a node, and the resource itself.

    If an amount of the resource is declared for the node, the command removes only
    the override. The node keeps its amount until the controller sets the declared one.
    """
    node, resources = _split(names, selector)
    for resource in resources:
        _require_resource(resource)
    places = places_from(
        namespace, preset_namespace=peerpods_namespace, preset_nodes=peerpods_nodes
    )
    wish = OverrideRequest(amounts=dict.fromkeys(resources), is_removal=True, is_forced=is_forced)
    target = _Target(node=node, selector=selector, kubeconfig=kubeconfig, context=context)
    return _say(answer_of(target.change(wish, places)), output)


@capacity.command(short_help="List capacity of nodes, its use, and the component that keeps it.")
@click.argument("node", required=False)
@reading_nodes_options
@format_options
def get(*, node: str | None, reading: Reading, format: Format) -> int:
    """List the extended resources of all nodes, or of one.

    Pods of all namespaces count as using them. -l and --field-selector select
    nodes. -n and -A change nothing, since nodes have no namespace.
    """
    if node is not None and (reading.selector or reading.field_selector):
        raise click.UsageError("name a node, or select nodes with -l or --field-selector")
    if node is not None:
        _require_node(node)
    printer = ListingPrinter(format)
    if not reading.is_live:
        return _show_lines(*_read_files(reading, node), printer)

    async def work(cluster: LiveCluster) -> int:
        selects = await reading.selected_in(cluster, NODES)
        nodes = [await read_node(cluster, node)] if node else await read_nodes(cluster)
        use = usage_of(await read_rows(cluster, node=node or ""))
        return _show_lines(
            [each.item for each in nodes if selects("", each.item.name)], use, printer
        )

    return reading.repeat([Wanted(resource=NODES), Wanted(resource=PODS)], work)


def _read_files(reading: Reading, name: str | None) -> tuple[list[CapacityNode], ExtendedUsage]:
    objects = reading.read([], kept=(NODES,))
    found = [decode_capacity_node(body) for body in objects.manifests.bodies[NODES]]
    nodes = [
        each
        for each in found
        if name in {None, each.name} and objects.is_selected(NODES.kind, "", each.name)
    ]
    if name is not None and not nodes:
        raise BadInputError(f"{reading}: no node called {printable(name)}")
    return nodes, usage_of([row_of(with_defaults(pod)) for pod in objects.manifests.pods])


def _show_lines(nodes: Sequence[CapacityNode], use: ExtendedUsage, printer: ListingPrinter) -> int:
    rows = [
        Row(cells=line.cells(), document=line.document(), name=f"node/{line.node}")
        for node in nodes
        for line in _lines(node, use)
    ]
    nothing = "no node offers an extended resource"
    printer.show(Listing(columns=COLUMNS, rows=tuple(rows), nothing=nothing))
    return OK


# ------------------------------------------------------------------ what was typed


def _split(names: tuple[str, ...], selector: str) -> tuple[str | None, Sequence[str]]:
    """The node, None where a selector is given, and the rest."""
    node, rest = (None, names) if selector else (names[0], names[1:])
    if node is not None:
        _require_node(node)
    elif not selector_from(selector, "--selector").requirements:
        raise BadInputError("--selector: an empty selector would select every node")
    if not rest:
        raise click.UsageError("name a node or give --selector, and then resources")
    if node is not None and "/" in node:
        raise click.UsageError(f"{printable(node)} is no node; name one or give --selector")
    return node, rest


def _require_node(name: str) -> None:
    """A name that is empty, as an unset variable is, must never stand for all nodes."""
    if not name.strip():
        raise BadInputError("NODE is empty; name a node, or give --selector")


def _amounts(assignments: Sequence[str]) -> Mapping[str, int | None]:
    amounts: dict[str, int | None] = {}
    for assignment in assignments:
        resource, sign, text = assignment.partition("=")
        if not sign:
            raise BadInputError(f"{printable(assignment)}: RESOURCE=AMOUNT is expected")
        _require_resource(resource)
        if resource in amounts:
            raise BadInputError(f"{printable(resource)}: given twice")
        amounts[resource] = None if text == NOTHING_OFFERED else _amount(resource, text)
    return amounts


def _amount(resource: str, text: str) -> int:
    if not _DIGITS.fullmatch(text):
        raise BadInputError(f"{printable(resource)}: a whole number is expected, or none")
    amount = int(text)
    if problem := amount_problem(amount):
        raise BadInputError(f"{printable(resource)}: {problem}")
    return amount


def _require_resource(name: str) -> None:
    if problem := resource_problem(name):
        raise BadInputError(f"{printable(name)}: {problem}")


# ------------------------------------------------------------------ on the cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """The nodes that a command changes, and their cluster."""

    node: str | None
    """Name of the node; None for all nodes that `selector` selects."""
    selector: str
    kubeconfig: str | None
    context: str

    async def change(
        self, wish: OverrideRequest, places: CapacityPlaces | None = None
    ) -> list[OverrideResult]:
        async with live_cluster(self.kubeconfig, self.context) as cluster:
            nodes, use = await self._nodes(cluster), await self._use(cluster)
            if places is not None:
                wish = replace(wish, declarations=await _declared(cluster, places))
            names = [seen.item.name for seen in nodes]
            reads = {name: partial(read_node, cluster, name) for name in names}
            return await override_nodes(cluster, reads, use.used, wish)

    async def _nodes(self, cluster: LiveCluster) -> list[Sighting[CapacityNode]]:
        if self.node is not None:
            return [await read_node(cluster, self.node)]
        return await read_nodes(cluster, self.selector)

    async def _use(self, cluster: LiveCluster) -> ExtendedUsage:
        return usage_of(await read_rows(cluster, node=self.node or ""))


async def _declared(cluster: LiveCluster, places: CapacityPlaces) -> tuple[Declaration, ...]:
    declared = await read_declared(cluster, places)
    for problem in declared.problems:
        click.echo(f"bursar: {printable(problem)}", err=True)
    return declared.declarations


def _say(changes: Sequence[OverrideResult], output: Output) -> int:
    if output is not Output.TABLE:
        emit_document([_changed_document(change) for change in changes], output)
    else:
        for change in changes:
            _say_one(change)
    if not changes:
        click.echo("bursar: no node has these labels", err=True)
    return OK if changes and all(change.is_done for change in changes) else NO


def _say_one(change: OverrideResult) -> None:
    node = printable(change.node)
    if change.failure:
        click.echo(f"bursar: {node}: {printable(change.failure)}", err=True)
    for objection in change.objections:
        click.echo(f"bursar: {node}: {printable(objection)}; left as it is", err=True)
    if not change.is_done:
        return
    for resource, amount in sorted(change.declared.items()):
        click.echo(f"{node}: {resource}: left to what is declared ({amount})")
    for each in change.settlements:
        click.echo(f"{node}: {each.resource}: {_done(each)}")
        if each.is_below_use:
            click.echo(f"bursar: {node}: {each.resource}: {each.used} in use", err=True)


def _done(each: Settlement) -> str:
    before = NOTHING_OFFERED if each.shown is None else str(each.shown)
    match each.action:
        case CapacityAction.SET:
            return f"set to {each.amount} (was {before})"
        case CapacityAction.WITHDRAW:
            return f"withdrawn (was {before})"
        case _:
            return f"unchanged ({before})"


def _changed_document(change: OverrideResult) -> dict[str, object]:
    return {
        "node": change.node,
        "written": change.is_written,
        "objections": list(change.objections),
        "failure": change.failure,
        "declared": dict(change.declared),
        "resources": [
            {
                "resource": each.resource,
                "verdict": each.action.value,
                "before": each.shown,
                "amount": each.amount,
                "used": each.used,
            }
            for each in change.settlements
        ],
    }


# ------------------------------------------------------------------ listing


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    node: str
    resource: str
    capacity: Quantity | None
    allocatable: Quantity | None
    used: int
    owner: str
    override: str

    @property
    def free(self) -> int:
        return max((self.allocatable or ZERO).whole_units - self.used, 0)

    def cells(self) -> tuple[str, ...]:
        return (
            *(self.node, self.resource),
            *map(amount_or_dash, (self.capacity, self.allocatable)),
            *(str(self.used), str(self.free), self.owner or "-", self.override or "-"),
        )

    def document(self) -> dict[str, object]:
        """The line for `-o json` and `-o yaml`. Amounts are texts, as in objects of Kubernetes."""
        return {
            "node": self.node,
            "resource": self.resource,
            "capacity": None if self.capacity is None else str(self.capacity),
            "allocatable": None if self.allocatable is None else str(self.allocatable),
            "used": str(self.used),
            "free": str(self.free),
            "owner": self.owner,
            "override": self.override,
        }


def _lines(node: CapacityNode, use: ExtendedUsage) -> Iterator[_Line]:
    names = {*node.capacity, *node.allocatable, *node.marked, *node.override}
    for resource in sorted(filter(is_extended, names)):
        override = node.override.get(resource)
        wish = NOTHING_OFFERED if override is None else str(override)
        yield _Line(
            node=node.name,
            resource=resource,
            capacity=node.capacity.get(resource),
            allocatable=node.allocatable.get(resource),
            used=use.used(node.name, resource),
            owner=_owner(node, resource),
            override=wish if resource in node.override else "",
        )


def _owner(node: CapacityNode, resource: str) -> str:
    if resource in node.marked:
        return "bursar"
    if resource == VM_RESOURCE and node.is_adaptors:
        return "cloud-api-adaptor"
    return "other" if resource in node.capacity else ""
