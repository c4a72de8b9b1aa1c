"""`bursar peerpod instance`: which instance type a size, or the pods in files, would get."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from bursar.adapters.files.peerpods import KINDS_READ, RewrittenManifest, rewrite_files
from bursar.cli import options
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
from bursar.cli.peerpods.options import (
    COUNT,
    EFFECTIVE_ONLY,
    Chosen,
    amount,
    catalogue_options,
    refuse_ignored,
    settings_from,
    sizing_options,
    types_from,
)
from bursar.cli.reading.reading import Reading, files_options
from bursar.core.model.problem import some_of
from bursar.core.peerpods.annotations import Rewrite
from bursar.core.peerpods.decision import Denied
from bursar.core.peerpods.instances import (
    MIB,
    Choice,
    InstanceType,
    MachineSize,
    NothingFits,
    best_choice,
    fitting_types,
    named_problem,
    upstream_choice,
    upstream_order,
)
from bursar.core.peerpods.machine_size import machine_size
from bursar.core.peerpods.names import MACHINE_TYPE_ANNOTATION
from bursar.core.peerpods.settings import Mode

COLUMNS: Final = (
    *(Column("POD"), Column("VCPUS"), Column("MEMORY"), Column("GPUS")),
    *(Column("INSTANCE"), Column("PRICE"), Column("ALSO FITS")),
)
ALSO_SHOWN_MAX: Final = 2
UPSTREAM: Final = "upstream"
BEST: Final = "best"


@dataclass(frozen=True, slots=True, kw_only=True)
class VmRequest:
    """A VM that is wanted: for a pod, or of a size given by options."""

    pod: str = ""
    template: str = ""
    """Kind and name of the workload that creates the pod; empty if the pod itself is in a file."""
    size: MachineSize = MachineSize()  # noqa: RUF009 - frozen
    named: str = ""
    denied: str = ""
    """Why the webhook would deny the pod; its size is then unknown."""

    @property
    def subject(self) -> str:
        kind = self.template.partition(" ")[0]
        return f"{self.pod} ({kind})" if kind else self.pod


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceReport:
    """The instance type chosen for one request."""

    request: VmRequest
    choice: Choice
    problem: str = ""
    """Why the exit code is 1: nothing fits, or the type named by the pod is too small."""
    warning: str = ""
    """That a named type is too small, in upstream's mode, which accepts it nevertheless."""
    others: Sequence[InstanceType] = ()
    price: str = ""


@click.command(short_help="Choose an instance type for a size, or for the pods in files.")
@click.option("--vcpus", type=COUNT, default=0, help="vCPUs that the VM must have.")
@click.option(
    "--memory", callback=amount, default="0", help="Memory that the VM must have, such as 6Gi."
)
@click.option("--gpus", type=COUNT, default=0, help="GPUs that the VM must have.")
@click.option("--type", "named", default="", help="Instance type that the pod names.")
@files_options
@options.shown(
    "--mode",
    BEST,
    "best: the cheapest type that fits; upstream: size and search as upstream does.",
    type=click.Choice([BEST, UPSTREAM]),
)
@click.option("--default", default="", help="Instance type for pods that ask for nothing.")
@sizing_options
@catalogue_options
@format_options
def instance(
    reading: Reading,
    mode: str,
    default: str,
    format: Format,
    **chosen: Any,  # noqa: ANN401 - what click makes of the other options
) -> int:
    """Print the chosen instance type, and the others that are large enough.

    Workloads (Deployments, Jobs, ...) count as the pod they would create. Without
    --catalogue the types come from the example catalogue. Exit code 1 if nothing
    fits, a named type is too small, or a pod is denied.
    """
    types = types_from(chosen)
    requests = _requests(reading, mode, chosen)
    reports = [_report(request, types, mode, default) for request in requests]
    _emit(reports, format)
    return NO if any(report.problem for report in reports) else OK


def _requests(reading: Reading, mode: str, chosen: Chosen) -> list[VmRequest]:
    size = MachineSize(
        vcpus=chosen["vcpus"],
        memory_mib=-(-chosen["memory"].whole_units // MIB),
        gpus=chosen["gpus"],
    )
    if reading.is_live:
        if size.is_nothing and not chosen["named"]:
            raise click.UsageError("give a size (--vcpus, --memory, --gpus), a --type, or files")
        refuse_ignored(chosen, ("runtime_class", *EFFECTIVE_ONLY), "without files")
        return [VmRequest(size=size, named=chosen["named"])]
    if not size.is_nothing or chosen["named"]:
        raise click.UsageError("give either a size or files")
    settings = settings_from(chosen, Mode.UPSTREAM if mode == UPSTREAM else Mode.EFFECTIVE)
    paths, stdin = reading.sources()
    objects = rewrite_files(
        paths, stdin, settings, templates=True, is_recursive=reading.is_recursive
    )
    requests = [request for each in objects for request in _requests_of(each)]
    if not requests:
        kinds = f"{', '.join(KINDS_READ[:-1])} and {KINDS_READ[-1]}"
        classes = ", ".join(sorted(settings.runtime_classes))
        raise BadInputError(
            printable(f"no peer pod in these files: no {kinds} of the runtime class {classes}")
        )
    return requests


def _requests_of(each: RewrittenManifest) -> Iterator[VmRequest]:
    name = each.subject.partition("/")[2]
    template = "" if each.kind == "Pod" else f"{each.kind} {name}"
    match each.decision:
        case Denied(message):
            yield VmRequest(pod=each.subject, template=template, denied=message)
        case Rewrite(size=size) as decision:
            yield VmRequest(
                pod=each.subject,
                template=template,
                size=machine_size(size),
                named=_named_by_author(decision),
            )
        case _:
            pass


def _named_by_author(decision: Rewrite) -> str:
    """The type that the pod's author named. A type written by an earlier rewrite does not count."""
    return "" if decision.instance else decision.annotations.get(MACHINE_TYPE_ANNOTATION, "")


def _report(
    request: VmRequest, types: Sequence[InstanceType], mode: str, default: str
) -> InstanceReport:
    if request.denied:
        denial = NothingFits(f"denied: {request.denied}")
        return InstanceReport(request=request, choice=denial, problem=denial.message)
    choice = _choice(request, types, mode, default)
    fitting = fitting_types(request.size, types)
    if isinstance(choice, NothingFits):
        return InstanceReport(
            request=request, choice=choice, problem=choice.message, others=fitting
        )
    price = {each.name: each.price for each in types}.get(choice.name)
    too_small = named_problem(request.size, types, request.named) if request.named else ""
    return InstanceReport(
        request=request,
        choice=choice,
        problem=too_small if mode == BEST else "",
        warning=too_small if mode == UPSTREAM else "",
        others=[each for each in fitting if each.name != choice.name],
        price="" if price is None else price.exact,
    )


def _choice(request: VmRequest, types: Sequence[InstanceType], mode: str, default: str) -> Choice:
    if mode == BEST:
        return best_choice(request.size, types, default=default, named=request.named)
    names = [each.name for each in types]
    ordered = upstream_order(types)
    return upstream_choice(request.size, ordered, default=default, valid=names, named=request.named)


# ------------------------------------------------------------------ for people


def _emit(reports: Sequence[InstanceReport], format: Format) -> None:
    start = 0 if any(report.request.pod for report in reports) else 1
    rows = tuple(
        Row(
            cells=_cells(report)[start:],
            document=_entry(report),
            name=_name(report),
        )
        for report in reports
    )
    emit_listing(Listing(columns=COLUMNS[start:], rows=rows), format)
    if not format.is_table:
        return
    for report in reports:
        if message := report.problem or report.warning:
            subject = report.request.subject or "this size"
            click.echo(printable(f"bursar: {subject}: {message}"), err=True)


def _name(report: InstanceReport) -> str:
    """The pod; for a size that is no pod's, the instance type."""
    pod = report.request.pod.rpartition("/")[2]
    if pod:
        return f"pod/{pod}"
    return NO_VALUE if isinstance(report.choice, NothingFits) else report.choice.name


def _cells(report: InstanceReport) -> tuple[str, ...]:
    size, choice = report.request.size, report.choice
    also = some_of([each.name for each in report.others], ALSO_SHOWN_MAX)
    return (
        report.request.subject,
        str(size.vcpus or "-"),
        f"{size.memory_mib}Mi" if size.memory_mib else "-",
        str(size.gpus or "-"),
        "-" if isinstance(choice, NothingFits) else choice.name or "<default>",
        report.price or "-",
        also or "-",
    )


# ------------------------------------------------------------------ for programs


def _entry(report: InstanceReport) -> dict[str, Any]:
    request, choice = report.request, report.choice
    entry: dict[str, Any] = {"pod": request.pod} if request.pod else {}
    if request.template:
        entry["template"] = request.template
    entry |= {
        "vcpus": None if request.denied else request.size.vcpus,
        "memoryMiB": None if request.denied else request.size.memory_mib,
        "gpus": None if request.denied else request.size.gpus,
        "instance": None if isinstance(choice, NothingFits) else choice.name,
    }
    if not isinstance(choice, NothingFits):
        entry["price"] = report.price or None
    if report.problem:
        entry["error"] = report.problem
    if report.warning:
        entry["warning"] = report.warning
    return entry | {"alsoFits": [_offer(each) for each in report.others]}


def _offer(each: InstanceType) -> dict[str, Any]:
    return {
        "name": each.name,
        "vcpus": each.vcpus,
        "memoryMiB": each.memory_mib,
        "gpus": each.gpus,
        "price": None if each.price is None else each.price.exact,
    }
