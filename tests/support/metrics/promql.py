"""Which metrics and labels a PromQL expression names. Whether it parses, promtool says."""

import re
from collections.abc import Iterator

from bursar.adapters.telemetry.catalogue.metric import Kind
from support.metrics.printed_metrics import LISTED
from support.metrics.prometheus import AT_CONTROLLER

SELECTOR = re.compile(r"\b((?:bursar|kube|process)_\w+|up)\b(?:\{([^}]*)\})?")
GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
MATCHER = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*(?:'[^']*'|\"[^\"]*\")")
TEMPLATE = re.compile(r"\$labels\.(\w+)|\{\{(\w+)\}\}")
OWN = {"up": ()}
"""Metrics of Prometheus itself."""


def metrics_in(expression: str) -> set[str]:
    return {name for name, _ in SELECTOR.findall(expression)}


def unknown_names(expression: str, template: str = "") -> list[str]:
    """Metrics and labels of an expression, and labels of a template, that do not exist."""
    return sorted({*_unknown(expression), *_unknown_labels(expression, template)})


def _unknown(expression: str) -> Iterator[str]:
    for name, matchers in SELECTOR.findall(expression):
        if name not in LISTED and name not in OWN:
            yield name
            continue
        labels = {*labels_of(name), *AT_CONTROLLER}
        yield from (
            f"{name}: {label}" for label in MATCHER.findall(matchers) if label not in labels
        )


def _unknown_labels(expression: str, template: str) -> Iterator[str]:
    known = {label for name in metrics_in(expression) for label in labels_of(name)}
    known |= set(AT_CONTROLLER)
    for names in GROUPING.findall(expression):
        yield from (each for each in re.findall(r"\w+", names) if each not in known)
    for found in TEMPLATE.findall(template):
        yield from (each for each in found if each and each not in known)


def labels_of(name: str) -> set[str]:
    """The labels that series of this name have, beside those of the target."""
    listed = LISTED.get(name)
    if listed is None:
        return set()
    is_bucket = listed.kind is Kind.HISTOGRAM and name.endswith("_bucket")
    return {*listed.labels, "le"} if is_bucket else set(listed.labels)
