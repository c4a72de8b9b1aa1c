"""`bursar policy check`: whether policies are valid, and what they charge for pods in files."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, cast

import click

from bursar.adapters.cel.language import open_language
from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.files.manifests import Origin, read_objects_as_written
from bursar.app.cluster.kinds import NAMESPACES, PODS
from bursar.app.cluster.ports import Json, Query
from bursar.app.cluster.reading.listing import list_all
from bursar.app.cluster.reading.wanted import Wanted
from bursar.app.counting.kinds import COUNTING_POLICIES
from bursar.cli.errors.exit_codes import NO, OK, BadInputError
from bursar.cli.live_cluster import LiveCluster
from bursar.cli.output.formats import printable
from bursar.cli.output.listing import (
    Column,
    Format,
    Listing,
    ListingPrinter,
    Row,
    format_options,
)
from bursar.cli.reading.reading import Reading, Selects, reading_options
from bursar.cli.verbs import Verbs
from bursar.core.counting.counter import Counted, Pending
from bursar.core.counting.kind_state import KindState
from bursar.core.counting.policies import PolicyCounter
from bursar.core.counting.policy import Policy, PolicyText
from bursar.core.model.pod_row import PodRow
from bursar.wire.counting.pod_body import keep_body
from bursar.wire.counting.policy import decode_policy, read_body, unknown_fields
from bursar.wire.model.namespace import decode_namespace
from bursar.wire.model.pod_row import PodRowDecoder

if TYPE_CHECKING:
    from bursar.wire.documents.tree import Value

COLUMNS: Final = (Column("POLICY"), Column("NAMESPACE"), Column("POD"), Column("CHARGES"))
WATCHED: Final = (COUNTING_POLICIES, PODS, NAMESPACES)
NATIVE: Final = "-"
DEFAULT: Final = "default"


@click.group(cls=Verbs, short_help="Check CountingPolicies and what they charge.")
def policy() -> None:
    """Check CountingPolicies: the expressions that say what pods are charged."""


@policy.command(short_help="Check policies, and show what they charge for pods.")
@reading_options
@click.option(
    "--at",
    "at",
    default=None,
    help="Time for expressions that use now, as 2026-11-14T12:00:00Z. Default: the present.",
)
@format_options
def check(reading: Reading, at: str | None, format: Format) -> int:
    """Check CountingPolicies, and show what they charge for the pods beside them.

    The command reads policies, pods and namespaces from files, or from the cluster
    that kubectl uses. The namespaces are the values of namespaceObject. Policies in
    shadow mode are shown as if they were enforced. -n, -l and --field-selector
    select pods.
    """
    printer, shown_namespace, seconds = (
        ListingPrinter(format),
        reading.shown_namespace,
        _seconds(at),
    )
    if not reading.is_live:
        found, selected = _read(reading)
        return _show(found, _Chosen(shown_namespace, selected, seconds), printer)

    async def work(cluster: LiveCluster) -> int:
        selects = await reading.selected_in(cluster, PODS)
        bodies = {
            each.kind: await list_all(cluster, each, Query(), bytes)
            for each in (COUNTING_POLICIES, NAMESPACES)
        }
        bodies[PODS.kind] = await list_all(cluster, PODS, Query(namespace=shown_namespace), bytes)
        return _show(bodies, _Chosen(shown_namespace, selects, seconds), printer)

    return reading.repeat([Wanted(resource=each) for each in WATCHED], work)


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The pods to show, and the time that expressions see."""

    shown_namespace: str
    selects: Selects
    seconds: int

    def has(self, row: PodRow) -> bool:
        return self.shown_namespace in {"", row.namespace} and self.selects(row.namespace, row.name)


def _show(found: Mapping[str, Sequence[bytes]], chosen: _Chosen, printer: ListingPrinter) -> int:
    counter = PolicyCounter(open_language(), keep_body, read_body)
    counter.set_time(chosen.seconds)
    for body in found["Namespace"]:
        counter.see_namespace(decode_namespace(body))
    for body in found[COUNTING_POLICIES.kind]:
        counter.see_policy(decode_policy(body))
    counter.set_state(KindState.SYNCED)
    if not list(counter.policies):
        raise BadInputError(f"no {COUNTING_POLICIES.kind} found; name their files with -f")
    invalid = [each for each in counter.policies if each.problems]
    for each in invalid:
        _report(each)
    if invalid:
        return NO
    decode = PodRowDecoder(lambda body: (keep_body(body),)).decode
    pods = [row for row in map(decode, found["Pod"]) if chosen.has(row)]
    if pods:
        printer.show(Listing(columns=COLUMNS, rows=tuple(_lines(counter, pods))))
    else:
        names = ", ".join(printable(each.text.name) for each in counter.policies)
        click.echo(f"valid: {names}")
    return OK


def _seconds(at: str | None) -> int:
    if at is None:
        return int(SYSTEM_CLOCK.now().timestamp())
    try:
        time = datetime.fromisoformat(at)
    except ValueError:
        raise BadInputError(f"--at: {at!r} is not a time such as 2026-11-14T12:00:00Z") from None
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp())


def _read(reading: Reading) -> tuple[dict[str, list[bytes]], Selects]:
    """The objects of the files as JSON, by kind, and which pods are selected."""
    found: dict[str, list[bytes]] = {"Pod": [], "Namespace": [], COUNTING_POLICIES.kind: []}
    selected: set[tuple[str, str]] = set()
    paths, stdin = reading.sources()
    written = read_objects_as_written(paths, stdin, is_recursive=reading.is_recursive)
    for body, origin in written:
        kind = str(body.get("kind"))
        if kind in found:
            found[kind].append(_encoded(kind, body, origin))
        metadata = body.get("metadata")
        if isinstance(metadata, dict) and reading.selects(cast("Mapping[str, Value]", body)):
            selected.add((str(metadata.get("namespace") or DEFAULT), str(metadata.get("name"))))
    return found, lambda namespace, name: (namespace, name) in selected


def _encoded(kind: str, body: dict[str, Json], origin: Origin) -> bytes:
    metadata = body.get("metadata")
    if kind == "Pod" and isinstance(metadata, dict) and not metadata.get("namespace"):
        body = {**body, "metadata": {**metadata, "namespace": DEFAULT}}
    encoded = json.dumps(body).encode()
    if kind == COUNTING_POLICIES.kind:
        try:
            decode_policy(encoded)
        except ValueError as error:
            raise BadInputError(f"{origin}: {error}") from None
        spec = body.get("spec")
        if isinstance(spec, dict) and (unknown := unknown_fields(spec)):
            raise BadInputError(f"{origin}: unknown field: {', '.join(map(printable, unknown))}")
    return encoded


def _report(found: Policy) -> None:
    for problem in found.problems:
        click.echo(f"{printable(found.text.name)}: {printable(problem.text)}", err=True)
        for line in problem.excerpt.splitlines():
            click.echo(printable(line), err=True)


def _lines(counter: PolicyCounter, rows: Sequence[PodRow]) -> Iterator[Row]:
    texts = [each.text for each in counter.policies]
    for row in rows:
        matched = [(text.name, _charge(counter, text, row)) for text in texts]
        shown = [(name, each) for name, each in matched if each]
        for name, each in shown or [(NATIVE, "counted natively")]:
            pod = f"{row.namespace}/{row.name}"
            yield Row(
                cells=(name, row.namespace, row.name, each),
                document={
                    "policy": None if name == NATIVE else name,
                    "pod": pod,
                    "charges": each,
                },
                name=f"pod/{row.name}",
            )


def _charge(counter: PolicyCounter, text: PolicyText, row: PodRow) -> str:
    """What one policy says of the pod; empty if it does not count it."""
    match counter.trial(text, row):
        case Counted(reason=reason):
            return reason.removeprefix(f"{text.name}: ")
        case Pending(detail=detail):
            return f"waits: {detail}"
        case None:
            return ""
