"""Metrics of the controller's books: quotas, waiting pods, releases, and the ledger."""

from typing import Final

from bursar.adapters.telemetry.catalogue.metric import FLAG, SECONDS, Kind, Section, metric

NAMESPACED: Final = "kube_application_aware_resourcequota"
CLUSTER: Final = "kube_application_aware_clusterresourcequota"
_CREATED: Final = "Creation time of the quota, in seconds since 1970."

QUOTAS: Final = Section(
    "quotas",
    (
        metric(
            NAMESPACED,
            "Limits and use of an ApplicationAwareResourceQuota, as its status reports them.",
            *("resourcequota", "namespace", "resource", "type", "unit"),
        ),
        metric(
            f"{NAMESPACED}_creation_timestamp",
            _CREATED,
            *("resourcequota", "namespace"),
            unit=SECONDS,
        ),
        metric(f"{NAMESPACED}_creation_timestamp_seconds", _CREATED, "resourcequota", "namespace"),
        metric(
            CLUSTER,
            "Limits and use of an ApplicationAwareClusterResourceQuota over all its namespaces.",
            *("clusterresourcequota", "resource", "type", "unit"),
        ),
        metric(
            f"{CLUSTER}_namespace_used",
            "Use of an ApplicationAwareClusterResourceQuota by one namespace. The parts add up "
            "to the whole.",
            *("clusterresourcequota", "namespace", "resource", "unit"),
        ),
        metric(f"{CLUSTER}_creation_timestamp", _CREATED, "clusterresourcequota", unit=SECONDS),
        metric(f"{CLUSTER}_creation_timestamp_seconds", _CREATED, "clusterresourcequota"),
    ),
)

WAITING: Final = Section(
    "waiting",
    (
        metric(
            "bursar_waiting_pods",
            "Pods that wait at the gate, by reason. Of several reasons the most severe one counts.",
            "reason",
        ),
        metric(
            "bursar_full_queues",
            "Namespaces that have the maximum number of waiting pods (--waiting-pods-max): new "
            "pods are refused.",
        ),
        metric("bursar_undecided_pods", "Waiting pods that the next round decides about."),
        metric("bursar_refusals_total", "Pods refused release, by reason.", "reason"),
        metric("bursar_decision_rounds_total", "Rounds of deciding about waiting pods."),
        metric("bursar_released_total", "Pods whose quota gate was removed."),
        metric(
            "bursar_freed_total", "Released pods whose namespace is no longer targeted by quotas."
        ),
        metric(
            "bursar_release_seconds",
            "Time from a pod's creation to its release, in seconds.",
            kind=Kind.HISTOGRAM,
        ),
        metric("bursar_releases_in_flight", "Pods whose gate is being removed."),
        metric("bursar_lifts_total", "Tries to remove a gate, by outcome.", "answer"),
        metric("bursar_api_writes_total", "Requests sent to remove a gate."),
        metric(
            "bursar_api_write_retries_total",
            "Requests to remove a gate that were repeated after no clear answer.",
        ),
    ),
)

ENFORCEMENT: Final = Section(
    "enforcement",
    (
        metric(
            "bursar_quotas_not_ready",
            "Quotas whose status says that limits are not in force, by reason.",
            "reason",
        ),
        metric(
            "bursar_quotas_not_counted",
            "Quotas whose status says that no counter charges some of their names.",
        ),
        metric(
            "bursar_quotas_unreadable",
            "Quotas whose spec cannot be read. Pods that they may cover wait.",
        ),
        metric(
            "bursar_refused_writes",
            "Objects of quotas whose latest write the API server refused, by object.",
            "object",
        ),
        metric(
            "bursar_refused_writes_total",
            "Refusals of writes for quotas by the API server, by object. A repetition in the same "
            "words counts once.",
            "object",
        ),
        metric("bursar_quotas_departed", "Deleted quotas that are still in force."),
        metric(
            "bursar_quota_kind_missing",
            "1 if the API server does not serve a kind of quota any more, else 0.",
            "kind",
            unit=FLAG,
        ),
        metric(
            "bursar_gating_mismatch",
            "1 for a policy or webhook that gates other namespaces than the controller, else 0.",
            "object",
            unit=FLAG,
        ),
    ),
)

LEDGER: Final = Section(
    "ledger",
    (
        metric("bursar_ledger_pods", "Pods charged to a quota."),
        metric(
            "bursar_ledger_reservations",
            "Reservations in the ledger: releases in flight and resizes.",
        ),
        metric(
            "bursar_ledger_debt",
            "Amount by which a quota is overdrawn, for example after its limit was lowered. No "
            "sample for a quota that is not.",
            *("kind", "namespace", "quota", "resource", "unit"),
        ),
        metric(
            "bursar_ledger_drift_accounts",
            "Accounts whose ledger balance differs from a recount of all pods. Expected: 0.",
        ),
        metric("bursar_ledger_drift", "Largest difference between ledger and recount.", "unit"),
        metric(
            "bursar_ledger_recount_seconds",
            "Duration of the latest recount of all pods, in seconds.",
        ),
    ),
)
