"""Metrics of quotas as their status reports them: AAQ's families by name, label and unit.

They show the status, as kube-state-metrics does for other objects, so that dashboards
made for AAQ go on working; `bursar_ledger_*` shows what the books hold. Cluster-wide
quotas have families of their own, which AAQ lacks: one for the whole and one for the
part of each namespace, so that neither is added to the other by mistake.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from bursar.adapters.telemetry.catalogue.books import CLUSTER, NAMESPACED
from bursar.adapters.telemetry.exposition import Family, Sample, family
from bursar.core.model.pod_row import epoch_s
from bursar.core.model.resources import ResourceList
from bursar.core.quota.names import unit_of
from bursar.core.quota.quota import QuotaKind, QuotaObject


def quota_families(quotas: Sequence[QuotaObject]) -> Iterator[Family]:
    namespaced = [each for each in quotas if each.quota.key.kind is QuotaKind.NAMESPACED]
    cluster_wide = [each for each in quotas if each.quota.key.kind is QuotaKind.CLUSTER]
    yield family(
        NAMESPACED,
        (sample for each in namespaced for sample in _whole(each, _namespaced_labels(each))),
    )
    yield from _creations(NAMESPACED, namespaced, _namespaced_labels)
    yield family(
        CLUSTER,
        (sample for each in cluster_wide for sample in _whole(each, _cluster_labels(each))),
    )
    yield family(
        f"{CLUSTER}_namespace_used",
        (sample for each in cluster_wide for sample in _parts(each)),
    )
    yield from _creations(CLUSTER, cluster_wide, _cluster_labels)


def _namespaced_labels(quota: QuotaObject) -> dict[str, str]:
    key = quota.quota.key
    return {"resourcequota": key.name, "namespace": key.namespace}


def _cluster_labels(quota: QuotaObject) -> dict[str, str]:
    return {"clusterresourcequota": quota.quota.key.name}


def _whole(quota: QuotaObject, labels: Mapping[str, str]) -> Iterator[Sample]:
    yield from _amounts(quota.reported_hard, labels, type="hard")
    yield from _amounts(quota.reported_used, labels, type="used")


def _parts(quota: QuotaObject) -> Iterator[Sample]:
    for namespace, reported in quota.reported_namespaces.items():
        yield from _amounts(reported.used, {**_cluster_labels(quota), "namespace": namespace})


def _amounts(amounts: ResourceList, labels: Mapping[str, str], **more: str) -> Iterator[Sample]:
    for name, amount in amounts.items():
        yield Sample(amount, {**labels, "resource": name, **more, "unit": unit_of(name).value})


def _creations(
    prefix: str,
    quotas: Sequence[QuotaObject],
    labels: Callable[[QuotaObject], Mapping[str, str]],
) -> Iterator[Family]:
    """The creation time under both names that AAQ has used; dashboards use either."""
    samples = [
        Sample(epoch_s(each.created_at), labels(each))
        for each in quotas
        if each.created_at is not None
    ]
    for suffix in ("creation_timestamp", "creation_timestamp_seconds"):
        yield family(f"{prefix}_{suffix}", samples)
