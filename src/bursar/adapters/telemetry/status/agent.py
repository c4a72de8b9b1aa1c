"""The status report of an agent: its socket, the node's pods, clients and devices."""

from bursar.adapters.serving.status_page import Report
from bursar.adapters.telemetry.agent.families import AgentView
from bursar.adapters.telemetry.status.process import bytes_per_pod, process_section


def agent_status(view: AgentView, pods_known: int, events: int, uptime_s: float) -> Report:
    """The status report. `events` is the number of events that wait to be written."""
    process, proxy = process_section(uptime_s), view.proxy
    resident = process["resident_bytes"]
    assert resident is None or isinstance(resident, int)
    return {
        "process": process,
        "socket": {"serving": view.is_serving},
        "pods": {
            "known": pods_known,
            "age_seconds": view.pods_age_s,
            "failing_seconds": view.failing_s,
            "resident_bytes_per_pod": bytes_per_pod(resident, pods_known),
        },
        "queues": {"calls_under_way": view.calls.under_way, "events": events},
        "caches": {
            "inventory_devices": None if view.inventory is None else len(view.inventory.devices),
            "reads": view.pods.reads,
            "read_failures": view.pods.failures,
        },
        "problems": {each.value: proxy.standing[each] for each in proxy.standing},
    }
