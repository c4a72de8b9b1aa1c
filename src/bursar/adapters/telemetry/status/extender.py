"""The status report of an extender: leadership, and numbers of its books."""

from bursar.adapters.serving.status_page import Report
from bursar.adapters.telemetry.controller.families import Limited
from bursar.adapters.telemetry.status.process import process_section
from bursar.app.extender.extender import Extender


def extender_status(extender: Extender, limiter: Limited, uptime_s: float) -> Report:
    term = extender.term
    recorders = (extender.pool_recorder, extender.pod_recorder)
    report: dict[str, dict[str, int | float | str | None]] = {
        "process": process_section(uptime_s),
        "leadership": {
            "leader": extender.election.is_leader,
            "problem": extender.readiness_problem or "none",
        },
        "queues": {
            "api_requests": limiter.waiting,
            "events": sum(each.waiting for each in recorders),
        },
    }
    if term is not None:
        report["pools"] = {
            "cluster_resources": len(term.pools),
            "pods": len(term.pods),
            "holds": len(term.books.holds),
            "lapsed_holds": term.books.lapsed,
            "scheduler_signals": term.signal.count,
        }
    return report
