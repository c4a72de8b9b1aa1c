"""Metrics of CountingPolicies: what they charge, or in shadow mode would charge."""

from collections.abc import Iterator, Sequence

from bursar.adapters.telemetry.exposition import Family, Sample, table
from bursar.core.counting.policies import PolicyReport
from bursar.core.quota.names import unit_of


def policy_families(reports: Sequence[PolicyReport]) -> Iterator[Family]:
    return table(
        "bursar_policy_",
        valid=(Sample(0 if each.policy.problems else 1, _labels(each)) for each in reports),
        pods=(Sample(_sum(each, failed=False), _labels(each)) for each in reports),
        failed_pods=(Sample(_sum(each, failed=True), _labels(each)) for each in reports),
        charges=(sample for each in reports for sample in _charges(each)),
    )


def _labels(report: PolicyReport) -> dict[str, str]:
    return {"policy": report.policy.text.name, "mode": report.policy.mode.value}


def _sum(report: PolicyReport, *, failed: bool) -> int:
    totals = report.namespaces.values()
    return sum(each.failed for each in totals) if failed else sum(each.pods for each in totals)


def _charges(report: PolicyReport) -> Iterator[Sample]:
    for namespace, totals in report.namespaces.items():
        for name, amount in totals.amounts.items():
            unit = unit_of(name).value
            labels = {"namespace": namespace, "resource": name, "unit": unit}
            yield Sample(amount, {**_labels(report), **labels})
