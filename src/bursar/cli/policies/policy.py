"""`bursar policy check`: whether policies are valid, and what they charge for pods in files."""

import json
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

import click

from bursar.adapters.cel.language import open_language
from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.files.manifests import ManifestError, Origin, read_objects_as_written
from bursar.app.cluster.ports import Json
from bursar.app.counting.kinds import COUNTING_POLICIES
from bursar.cli.exit_codes import NO, OK, BadInputError
from bursar.cli.options import required_files
from bursar.cli.output.formats import Output, emit_rows, output_option, printable
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

COLUMNS: Final = ("POLICY", "POD", "CHARGES")
NATIVE: Final = "-"
DEFAULT: Final = "default"


@click.group(cls=Verbs, short_help="Check CountingPolicies and what they charge, offline.")
def policy() -> None:
    """Check CountingPolicies: the expressions that say what pods are charged.

    Reads files only; no cluster is contacted.
    """


@policy.command(short_help="Check policies in files, and show what they charge for pods there.")
@required_files
@click.option(
    "--at",
    "at",
    default=None,
    help="Time for expressions that use now, as 2026-11-14T12:00:00Z. Default: the present.",
)
@output_option
def check(files: tuple[str, ...], at: str | None, output: Output) -> int:
    """Check the CountingPolicies in files, and show what they charge for the pods there.

    Namespaces in the files are what namespaceObject stands for. Policies in shadow mode are
    shown as if they were enforced.
    """
    found = _read(files)
    counter = PolicyCounter(open_language(), keep_body, read_body)
    counter.set_time(_seconds(at))
    for body in found["Namespace"]:
        counter.see_namespace(decode_namespace(body))
    for body in found[COUNTING_POLICIES.kind]:
        counter.see_policy(decode_policy(body))
    counter.set_state(KindState.SYNCED)
    if not list(counter.policies):
        raise BadInputError(f"no {COUNTING_POLICIES.kind} in the files")
    invalid = [each for each in counter.policies if each.problems]
    for each in invalid:
        _report(each)
    if invalid:
        return NO
    rows = [PodRowDecoder(lambda body: (keep_body(body),)).decode(body) for body in found["Pod"]]
    lines = list(_lines(counter, rows)) if rows else []
    if rows:
        documents = [dict(zip(("policy", "pod", "charges"), each, strict=True)) for each in lines]
        emit_rows(output, documents, COLUMNS, lines, nothing="no pods in the files")
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


def _read(files: Sequence[str]) -> dict[str, list[bytes]]:
    """The objects of the files as JSON, by kind."""
    found: dict[str, list[bytes]] = {"Pod": [], "Namespace": [], COUNTING_POLICIES.kind: []}
    try:
        for body, origin in read_objects_as_written(files, sys.stdin.buffer):
            kind = str(body.get("kind"))
            if kind in found:
                found[kind].append(_encoded(kind, body, origin))
    except ManifestError as error:
        raise BadInputError(str(error)) from None
    return found


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


def _lines(counter: PolicyCounter, rows: Sequence[PodRow]) -> Iterator[tuple[str, str, str]]:
    texts = [each.text for each in counter.policies]
    for row in rows:
        matched = [(text.name, _charge(counter, text, row)) for text in texts]
        shown = [(name, each) for name, each in matched if each]
        for name, each in shown or [(NATIVE, "counted natively")]:
            yield name, f"{row.namespace}/{row.name}", each


def _charge(counter: PolicyCounter, text: PolicyText, row: PodRow) -> str:
    """What one policy says of the pod; empty if it does not count it."""
    match counter.trial(text, row):
        case Counted(reason=reason):
            return reason.removeprefix(f"{text.name}: ")
        case Pending(detail=detail):
            return f"waits: {detail}"
        case None:
            return ""
