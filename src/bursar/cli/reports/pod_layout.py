"""A pod report as text for people: what it counts for, who decided, what the node will enforce."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import click

from bursar.app.reports.pod import ContainerReport, PodReport
from bursar.cli.output.formats import amount_or_dash, emit_table, printable
from bursar.core.model.demand import Basis
from bursar.core.model.provenance import Decision, Part

INDENT: Final = 2
ABSENT: Final = "-"
POD: Final = "(pod)"
ALIKE_EVERYWHERE: Final = {"memory.memsw.limit_in_bytes", "memory.swap.max", "memory.oom.group"}


def emit_pod(report: PodReport, *, owner: str = "") -> None:
    """Print one pod. `owner` names the workload whose template it is."""
    pod = report.pod
    click.echo(f"Pod:        {printable(f'{pod.namespace}/{pod.name}'.lstrip('/'))}")
    if owner:
        click.echo(f"Template:   {printable(owner)}")
    if pod.node_name:
        click.echo(f"Node:       {printable(pod.node_name)}")
    if pod.reason:
        click.echo(f"Status:     {printable(pod.phase)}")
        click.echo(f"Reason:     {printable(pod.reason)}")
        click.echo(f"Message:    {printable(pod.message)}")
    click.echo(f"QoS Class:  {report.qos.qos.value} ({printable(report.qos.reason)})")
    _emit_section(
        "Containers:", ("NAME", "KIND", "RESOURCE", "REQUEST", "LIMIT"), _contents(report)
    )
    _emit_section("Effective:", ("RESOURCE", "", "AMOUNT", "DECIDED BY"), _effective(report))
    _emit_cgroups("On the node, cgroup v2:", _v2_cgroups(report))
    _emit_cgroups("On the node, cgroup v1:", _v1_cgroups(report))
    _emit_endings(report.containers)
    _emit_lines("Set by admission:", report.admission)
    _emit_lines("Warnings:", report.warnings)
    click.echo(f"Valid:      {'yes' if report.is_valid else 'no'}")
    _emit_lines("Validation errors:", report.errors)
    _emit_lines("Not checked:", report.not_checked)


def _emit_section(title: str, columns: Sequence[str], rows: Iterator[Sequence[str]]) -> None:
    listed = list(rows)
    click.echo(title if listed else f"{title}  <none>")
    if listed:
        emit_table(columns, listed, indent=INDENT)


def _contents(report: PodReport) -> Iterator[Sequence[str]]:
    for container in report.containers:
        names = sorted({*container.requests, *container.limits})
        for name in names or [ABSENT]:
            request, limit = container.requests.get(name), container.limits.get(name)
            yield (
                container.name,
                container.cgroup.kind.value,
                name,
                amount_or_dash(request),
                amount_or_dash(limit),
            )


def _effective(report: PodReport) -> Iterator[Sequence[str]]:
    for name in sorted({*report.requests, *report.limits}):
        for what, decisions in (("request", report.requests), ("limit", report.limits)):
            if name in decisions:
                decision = decisions[name]
                yield (name, what, str(decision.amount), decided_by(decision))


def decided_by(decision: Decision) -> str:
    """The rule and its summands, as one would say it."""
    return f"{decision.rule.value}: {' + '.join(_summand(part) for part in decision.parts)}"


def _summand(part: Part) -> str:
    basis = "" if part.basis is Basis.SPEC else f" ({part.basis.value})"
    return f"{part.source} {part.amount}{basis}"


Files: TypeAlias = Mapping[str, str | None]
Cgroups: TypeAlias = Sequence[tuple[str, Files]]


def _v2_cgroups(report: PodReport) -> Cgroups:
    own = [(c.name, {**c.cgroup.v2_files(), **_judged(c)}) for c in report.containers]
    return [(POD, report.cgroup.values.v2_files()), *own]


def _v1_cgroups(report: PodReport) -> Cgroups:
    own = [(c.name, c.cgroup.v1_files()) for c in report.containers]
    return [(POD, report.cgroup.values.v1_files()), *own]


def _judged(container: ContainerReport) -> Files:
    """What is told beside the files of a container: what older runtimes write, and its score."""
    score = container.cgroup.oom_score_adj
    return {
        "older cpu.weight": str(container.cgroup.older_cpu_weight),
        "oom_score_adj": "depends on the node" if score is None else str(score),
    }


def _emit_cgroups(title: str, cgroups: Cgroups) -> None:
    names = dict.fromkeys(name for _, files in cgroups for name in files)
    columns = [name for name in names if _worth_telling(name, cgroups)]
    rows = [
        (cgroup, *(files.get(column) or ABSENT for column in columns)) for cgroup, files in cgroups
    ]
    click.echo(title)
    emit_table(["CGROUP", *columns], rows, indent=INDENT)


def _worth_telling(name: str, cgroups: Cgroups) -> bool:
    """Show hugepages only if a container has some; omit what is equal for every container."""
    if name.startswith("hugetlb."):
        return any(files.get(name) not in {None, "0"} for _, files in cgroups)
    return name not in ALIKE_EVERYWHERE


def _emit_endings(containers: Sequence[ContainerReport]) -> None:
    endings = [
        (c.name, c.last_state.reason or ABSENT, str(c.last_state.exit_code))
        for c in containers
        if c.last_state is not None
    ]
    if endings:
        _emit_section("Ended last:", ("NAME", "REASON", "EXIT CODE"), iter(endings))


def _emit_lines(title: str, lines: Sequence[str]) -> None:
    if lines:
        click.echo(title)
    for line in lines:
        click.echo(f"{' ' * INDENT}{printable(line)}")
