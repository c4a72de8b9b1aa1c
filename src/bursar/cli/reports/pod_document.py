"""A pod report as plain data, for `-o json` and `-o yaml`: quantities are their text."""

from collections.abc import Mapping
from typing import TypeAlias

from bursar.app.reports.pod import ContainerReport, PodReport
from bursar.app.reports.replicas import ReplicasReport
from bursar.cli.output.formats import texts_of
from bursar.core.model.pod import ContainerState
from bursar.core.model.provenance import Decision

Document: TypeAlias = dict[str, object]


def as_dict(
    report: PodReport, *, owner: str = "", replicas: ReplicasReport | None = None
) -> Document:
    """The report in camel case. A cgroup file that is not written is null."""
    document = _pod(report)
    if owner:
        document["template"] = owner
    if replicas is not None:
        document["together"] = _together(replicas)
    return document


def _together(replicas: ReplicasReport) -> Document:
    return {
        "perPod": texts_of(replicas.per_pod),
        "totals": [
            {
                "pods": total.count,
                "meaning": total.meaning,
                "amounts": texts_of(total.amounts),
            }
            for total in replicas.totals
        ],
        "notes": list(replicas.notes),
    }


def _pod(report: PodReport) -> Document:
    pod = report.pod
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "node": pod.node_name or None,
        "phase": pod.phase or None,
        "reason": pod.reason or None,
        "message": pod.message or None,
        "qosClass": report.qos.qos.value,
        "qosReason": report.qos.reason,
        "containers": [_container(container) for container in report.containers],
        "effective": {
            "requests": _amounts(report.requests),
            "limits": _amounts(report.limits),
        },
        "decidedBy": {
            "requests": _decisions(report.requests),
            "limits": _decisions(report.limits),
        },
        "cgroup": {
            "paths": {
                "cgroupfs": report.cgroup.cgroupfs_path,
                "systemd": report.cgroup.systemd_path,
            },
            "v1": dict(report.cgroup.values.v1_files()),
            "v2": dict(report.cgroup.values.v2_files()),
        },
        "admission": list(report.admission),
        "stored": report.is_stored,
        "valid": report.is_valid,
        "errors": list(report.errors),
        "notChecked": list(report.not_checked),
        "warnings": list(report.warnings),
    }


def _container(container: ContainerReport) -> Document:
    return {
        "name": container.name,
        "kind": container.cgroup.kind.value,
        "requests": texts_of(container.requests),
        "limits": texts_of(container.limits),
        "cgroup": {
            "v1": dict(container.cgroup.v1_files()),
            "v2": dict(container.cgroup.v2_files()),
        },
        "olderRuntimeCpuWeight": container.cgroup.older_cpu_weight,
        "oomScoreAdj": container.cgroup.oom_score_adj,
        "lastTermination": None if container.last_state is None else _ended(container.last_state),
    }


def _ended(state: ContainerState) -> Document:
    return {
        "reason": state.reason,
        "exitCode": state.exit_code,
        "finishedAt": None if state.finished_at is None else state.finished_at.isoformat(),
    }


def _amounts(decisions: Mapping[str, Decision]) -> dict[str, str]:
    return {name: str(decision.amount) for name, decision in sorted(decisions.items())}


def _decisions(decisions: Mapping[str, Decision]) -> Document:
    return {
        name: {
            "rule": decision.rule.value,
            "parts": [
                {
                    "source": part.source,
                    "kind": part.kind.value,
                    "amount": str(part.amount),
                    "basis": part.basis.value,
                }
                for part in decision.parts
            ],
        }
        for name, decision in sorted(decisions.items())
    }
