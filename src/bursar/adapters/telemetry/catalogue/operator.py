"""Metrics of the operator: the status of the AAQ object, and writes to the installation."""

from typing import Final

from bursar.adapters.telemetry.catalogue.metric import FLAG, OPERATOR, Metric, Section, metric


def _operator(name: str, help: str, *labels: str, unit: str = "") -> Metric:
    return metric(f"bursar_operator_{name}", help, *labels, unit=unit, processes=OPERATOR)


INSTALLATION: Final = Section(
    "operator",
    (
        _operator(
            "condition",
            "1 if the condition of the AAQ object is true, else 0, by type and reason.",
            *("type", "reason"),
            unit=FLAG,
        ),
        _operator(
            "phase", "1 for the phase of the AAQ object, 0 for the others.", "phase", unit=FLAG
        ),
        _operator(
            "ready_replicas", "Ready replicas of a Deployment of the installation.", "deployment"
        ),
        _operator(
            "wanted_replicas",
            "Replicas that a Deployment of the installation should have.",
            "deployment",
        ),
        _operator("unwanted_objects", "AAQ objects beside the one in force."),
        _operator(
            "writes_total",
            "Objects of the installation that were written, or refused, by outcome.",
            "outcome",
        ),
        _operator("passes_total", "Comparisons of the whole installation."),
    ),
)
