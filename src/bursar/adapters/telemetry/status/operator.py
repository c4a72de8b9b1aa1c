"""The status report of an operator: the installation, and what was done to it."""

from bursar.adapters.serving.status_page import Report
from bursar.adapters.telemetry.controller.families import Limited
from bursar.adapters.telemetry.status.process import process_section
from bursar.app.operator.operator import Operator


def operator_status(operator: Operator, limiter: Limited, uptime_s: float) -> Report:
    term = operator.term
    report: dict[str, dict[str, int | float | str | None]] = {
        "process": process_section(uptime_s),
        "leadership": {
            "leader": operator.election.is_leader,
            "problem": operator.readiness_problem or "none",
        },
        "queues": {"api_requests": limiter.waiting, "events": operator.recorder.waiting},
    }
    if term is not None:
        judgement = term.view.judgement
        report["installation"] = {
            "phase": None if judgement is None else judgement.phase.value,
            "unwanted_objects": term.view.unwanted,
            "passes": term.passes,
            **{f"ready_{each.name}": each.ready for each in term.view.workloads},
            **{f"objects_{write}": count for write, count in sorted(term.applied.writes.items())},
        }
    return report
