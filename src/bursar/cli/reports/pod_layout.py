"""A pod report as text: what the pod counts for, which rule decided, what the node will enforce."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from bursar.app.reports.pod import ContainerReport, PodReport
from bursar.app.reports.replicas import ReplicasReport
from bursar.cli.output.formats import amount_or_dash, printable, table_lines
from bursar.core.model.demand import Basis
from bursar.core.model.provenance import Decision, Part

INDENT: Final = 2
ABSENT: Final = "-"
POD: Final = "(pod)"
ALIKE_EVERYWHERE: Final = {"memory.memsw.limit_in_bytes", "memory.swap.max", "memory.oom.group"}


def pod_text(report: PodReport, *, owner: str = "", replicas: ReplicasReport | None = None) -> str:
    """The description of one pod. `owner` names the workload whose template it is."""
    return "\n".join(_lines(report, owner, replicas))


def _lines(report: PodReport, owner: str, replicas: ReplicasReport | None) -> Iterator[str]:
    pod = report.pod
    yield f"Pod:        {printable(f'{pod.namespace}/{pod.name}'.lstrip('/'))}"
    if owner:
        yield f"Template:   {printable(owner)}"
    if pod.node_name:
        yield f"Node:       {printable(pod.node_name)}"
    if pod.reason:
        yield f"Status:     {printable(pod.phase)}"
        yield f"Reason:     {printable(pod.reason)}"
        yield f"Message:    {printable(pod.message)}"
    yield f"QoS Class:  {report.qos.qos.value} ({printable(report.qos.reason)})"
    yield from _section(
        "Containers:", ("NAME", "KIND", "RESOURCE", "REQUEST", "LIMIT"), list(_contents(report))
    )
    yield from _section(
        "Effective:", ("RESOURCE", "", "AMOUNT", "DECIDED BY"), list(_effective(report))
    )
    if replicas is not None:
        yield from _together(replicas)
    yield from _cgroups("On the node, cgroup v2:", _v2_cgroups(report))
    yield from _cgroups("On the node, cgroup v1:", _v1_cgroups(report))
    yield from _endings(report.containers)
    yield from _listed("Set by admission:", report.admission)
    yield from _listed("Warnings:", report.warnings)
    yield f"Valid:      {_verdict(report)}"
    yield from _listed("Validation errors:", report.errors)
    yield from _listed("Not checked:", report.not_checked)


def _verdict(report: PodReport) -> str:
    if report.is_stored:
        return "yes (the API server has stored it, so it was admitted)"
    return "yes" if report.is_valid else "no"


def _section(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield title if rows else f"{title}  <none>"
    if rows:
        yield from table_lines(columns, rows, indent=INDENT)


def _together(replicas: ReplicasReport) -> Iterator[str]:
    """All pods of the workload: a column for each number of pods that it may have."""
    heads = ["RESOURCE", "PER POD", *(f"x {total.count}" for total in replicas.totals)]
    rows = [
        (name, str(amount), *(str(total.amounts[name]) for total in replicas.totals))
        for name, amount in replicas.per_pod.items()
    ]
    yield from _section("Together:", heads, rows)
    for total in replicas.totals:
        yield f"{' ' * INDENT}x {total.count}: {total.meaning}"
    for note in replicas.notes:
        yield f"{' ' * INDENT}{printable(note)}"


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
    """Columns beside a container's cgroup files: `cpu.weight` of older runtimes, and OOM score."""
    score = container.cgroup.oom_score_adj
    return {
        "older cpu.weight": str(container.cgroup.older_cpu_weight),
        "oom_score_adj": "depends on the node" if score is None else str(score),
    }


def _cgroups(title: str, cgroups: Cgroups) -> Iterator[str]:
    names = dict.fromkeys(name for _, files in cgroups for name in files)
    columns = [name for name in names if _worth_telling(name, cgroups)]
    rows = [
        (cgroup, *(files.get(column) or ABSENT for column in columns)) for cgroup, files in cgroups
    ]
    yield title
    yield from table_lines(["CGROUP", *columns], rows, indent=INDENT)


def _worth_telling(name: str, cgroups: Cgroups) -> bool:
    """Show hugepages only if a container has some; omit what is equal for every container."""
    if name.startswith("hugetlb."):
        return any(files.get(name) not in {None, "0"} for _, files in cgroups)
    return name not in ALIKE_EVERYWHERE


def _endings(containers: Sequence[ContainerReport]) -> Iterator[str]:
    endings = [
        (c.name, c.last_state.reason or ABSENT, str(c.last_state.exit_code))
        for c in containers
        if c.last_state is not None
    ]
    if endings:
        yield from _section("Ended last:", ("NAME", "REASON", "EXIT CODE"), endings)


def _listed(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield title
    for line in lines:
        yield f"{' ' * INDENT}{printable(line)}"
