"""`bursar peerpod instance`: which instance type a size, or the pods in files, would get."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from bursar.adapters.peerpod_files import FileObject, ManifestError, rewrite_files
from bursar.adapters.peerpod_templates import KINDS_READ, with_templates
from bursar.cli.exit_codes import NO, OK, BadInputError
from bursar.cli.output.formats import Output, emit_document, emit_table, output_option, printable
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
from bursar.core.peerpods.annotating import machine_size
from bursar.core.peerpods.instances import (
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
from bursar.core.peerpods.rewriting import Denied, Rewritten
from bursar.core.peerpods.settings import MACHINE_TYPE_ANNOTATION, Mode
from bursar.core.peerpods.sizing import MIB

COLUMNS: Final = ("POD", "VCPUS", "MEMORY", "GPUS", "INSTANCE", "PRICE", "ALSO FITS")
ALSO_SHOWN_MAX: Final = 3
UPSTREAM: Final = "upstream"
BEST: Final = "best"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What a VM is wanted for: a pod, or a size given by hand."""

    pod: str = ""
    template: str = ""
    """The workload that makes the pod, if it is not in the files itself."""
    size: MachineSize = MachineSize()  # noqa: RUF009 - frozen
    named: str = ""
    denied: str = ""
    """Why the pod would not be created; then its size is not known."""

    @property
    def subject(self) -> str:
        kind = self.template.partition(" ")[0]
        return f"{self.pod} ({kind})" if kind else self.pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    ask: Ask
    choice: Choice
    problem: str = ""
    """Why the answer is no, even if a type was chosen: one that is too small."""
    warning: str = ""
    """The same, where upstream is asked, which does not look at the size of a named type."""
    others: Sequence[InstanceType] = ()
    price: str = ""


@click.command(short_help="Choose an instance type for a size, or for the pods in files.")
@click.option("--vcpus", type=COUNT, default=0, help="How many vCPUs are wanted.")
@click.option("--memory", callback=amount, default="0", help="How much memory, e.g. 6Gi.")
@click.option("--gpus", type=COUNT, default=0, help="How many GPUs.")
@click.option("--type", "named", default="", help="The type a pod names itself.")
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    type=click.Path(allow_dash=True),
    help="Peer pods to choose for, instead of a size. Repeatable.",
)
@click.option(
    "--mode",
    type=click.Choice([BEST, UPSTREAM]),
    default=BEST,
    show_default=True,
    help="The cheapest that fits; or size and search as upstream does.",
)
@click.option("--default", default="", help="The type for pods that ask for nothing.")
@sizing_options
@catalogue_options
@output_option
def instance(
    files: Sequence[str],
    mode: str,
    default: str,
    output: Output,
    **chosen: Any,  # noqa: ANN401 - what click makes of the other options
) -> int:
    """Print which instance type is chosen, and what else would be large enough.

    Workloads (Deployments, Jobs, ...) count as the pod they would create. Without
    --catalogue from the example that comes with Bursar. Exit code 1 if nothing
    fits, a named type is too small, or a pod is denied.
    """
    types = types_from(chosen)
    asks = _asks(files, mode, chosen)
    answers = [_answer(ask, types, mode, default) for ask in asks]
    if output is Output.TABLE:
        _emit_table(answers)
    else:
        emit_document([_entry(answer) for answer in answers], output)
    return NO if any(answer.problem for answer in answers) else OK


def _asks(files: Sequence[str], mode: str, chosen: Chosen) -> list[Ask]:
    size = MachineSize(
        vcpus=chosen["vcpus"],
        memory_mib=-(-chosen["memory"].whole_units // MIB),
        gpus=chosen["gpus"],
    )
    if not files:
        if size.is_nothing and not chosen["named"]:
            raise click.UsageError("give a size (--vcpus, --memory, --gpus), a --type, or files")
        refuse_ignored(chosen, ("runtime_class", *EFFECTIVE_ONLY), "without files")
        return [Ask(size=size, named=chosen["named"])]
    if not size.is_nothing or chosen["named"]:
        raise click.UsageError("give either a size or files")
    settings = settings_from(chosen, Mode.UPSTREAM if mode == UPSTREAM else Mode.EFFECTIVE)
    try:
        objects = rewrite_files(files, sys.stdin.buffer, settings)
    except ManifestError as error:
        raise BadInputError(str(error)) from None
    asks = [ask for each in with_templates(objects, settings) for ask in _asks_of(each)]
    if not asks:
        kinds = f"{', '.join(KINDS_READ[:-1])} and {KINDS_READ[-1]}"
        classes = ", ".join(sorted(settings.runtime_classes))
        raise BadInputError(
            printable(f"no peer pod in these files: no {kinds} of the runtime class {classes}")
        )
    return asks


def _asks_of(each: FileObject) -> Iterator[Ask]:
    name = each.subject.partition("/")[2]
    template = "" if each.kind == "Pod" else f"{each.kind} {name}"
    match each.rewriting:
        case Denied(message):
            yield Ask(pod=each.subject, template=template, denied=message)
        case Rewritten(size=size) as rewriting:
            yield Ask(
                pod=each.subject,
                template=template,
                size=machine_size(size),
                named=_named_by_author(rewriting),
            )
        case _:
            pass


def _named_by_author(rewriting: Rewritten) -> str:
    """The type that a pod names; what an earlier rewrite has written is chosen anew."""
    if rewriting.instance:
        return ""
    metadata = rewriting.document.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    text = annotations.get(MACHINE_TYPE_ANNOTATION) if isinstance(annotations, dict) else None
    return text if isinstance(text, str) else ""


def _answer(ask: Ask, types: Sequence[InstanceType], mode: str, default: str) -> Answer:
    if ask.denied:
        denial = NothingFits(f"denied: {ask.denied}")
        return Answer(ask=ask, choice=denial, problem=denial.message)
    choice = _choice(ask, types, mode, default)
    fitting = fitting_types(ask.size, types)
    if isinstance(choice, NothingFits):
        return Answer(ask=ask, choice=choice, problem=choice.message, others=fitting)
    price = {each.name: each.price for each in types}.get(choice.name)
    too_small = named_problem(ask.size, types, ask.named) if ask.named else ""
    return Answer(
        ask=ask,
        choice=choice,
        problem=too_small if mode == BEST else "",
        warning=too_small if mode == UPSTREAM else "",
        others=[each for each in fitting if each.name != choice.name],
        price="" if price is None else price.exact,
    )


def _choice(ask: Ask, types: Sequence[InstanceType], mode: str, default: str) -> Choice:
    if mode == BEST:
        return best_choice(ask.size, types, default=default, named=ask.named)
    names = [each.name for each in types]
    ordered = upstream_order(types)
    return upstream_choice(ask.size, ordered, default=default, valid=names, named=ask.named)


# ------------------------------------------------------------------ for people


def _emit_table(answers: Sequence[Answer]) -> None:
    shown = [_row(answer) for answer in answers]
    start = 0 if any(answer.ask.pod for answer in answers) else 1
    emit_table(COLUMNS[start:], [row[start:] for row in shown])
    for answer in answers:
        if told := answer.problem or answer.warning:
            subject = answer.ask.subject or "this size"
            click.echo(printable(f"bursar: {subject}: {told}"), err=True)


def _row(answer: Answer) -> tuple[str, ...]:
    size, choice = answer.ask.size, answer.choice
    names = [each.name for each in answer.others]
    also = ", ".join(names[:ALSO_SHOWN_MAX])
    if len(names) > ALSO_SHOWN_MAX:
        also += f" and {len(names) - ALSO_SHOWN_MAX} more"
    return (
        answer.ask.subject,
        str(size.vcpus or "-"),
        f"{size.memory_mib}Mi" if size.memory_mib else "-",
        str(size.gpus or "-"),
        "-" if isinstance(choice, NothingFits) else choice.name or "<default>",
        answer.price or "-",
        also or "-",
    )


# ------------------------------------------------------------------ for programs


def _entry(answer: Answer) -> dict[str, Any]:
    ask, choice = answer.ask, answer.choice
    entry: dict[str, Any] = {"pod": ask.pod} if ask.pod else {}
    if ask.template:
        entry["template"] = ask.template
    entry |= {
        "vcpus": None if ask.denied else ask.size.vcpus,
        "memoryMiB": None if ask.denied else ask.size.memory_mib,
        "gpus": None if ask.denied else ask.size.gpus,
        "instance": None if isinstance(choice, NothingFits) else choice.name,
    }
    if not isinstance(choice, NothingFits):
        entry["price"] = answer.price or None
    if answer.problem:
        entry["error"] = answer.problem
    if answer.warning:
        entry["warning"] = answer.warning
    return entry | {"alsoFits": [_offer(each) for each in answer.others]}


def _offer(each: InstanceType) -> dict[str, Any]:
    return {
        "name": each.name,
        "vcpus": each.vcpus,
        "memoryMiB": each.memory_mib,
        "gpus": each.gpus,
        "price": None if each.price is None else each.price.exact,
    }
