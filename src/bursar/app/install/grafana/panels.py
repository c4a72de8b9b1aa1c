"""The panels of the dashboard: titles, queries and legends."""

from dataclasses import dataclass
from typing import Final

from bursar.app.names import CONTROLLER, WEBHOOK


@dataclass(frozen=True, slots=True)
class Query:
    expression: str
    """In PromQL."""
    legend: str
    """`{{label}}` stands for the value of a label."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    title: str
    description: str
    queries: tuple[Query, ...]
    unit: str = "short"
    """In Grafana's words."""


@dataclass(frozen=True, slots=True)
class Row:
    title: str
    panels: tuple[Panel, ...]


_PROCESSES: Final = f"service=~'{CONTROLLER}|{WEBHOOK}'"
_USED: Final = "{type='used'} / ignoring (type) "
_NAMESPACED: Final = "kube_application_aware_resourcequota"
_CLUSTER: Final = "kube_application_aware_clusterresourcequota"

WAITING: Final = Row(
    "Waiting pods",
    (
        Panel(
            title="Waiting pods by reason",
            description="Pods behind the gate. Of several reasons the most severe one counts.",
            queries=(Query("sum by (reason) (bursar_waiting_pods)", "{{reason}}"),),
        ),
        Panel(
            title="Released pods",
            description="Pods from which the controller removed the gate, per second.",
            queries=(
                Query("sum(rate(bursar_released_total[5m]))", "released"),
                Query("sum(rate(bursar_freed_total[5m]))", "namespace no longer targeted"),
            ),
            unit="cps",
        ),
        Panel(
            title="Time from creation to release",
            description="Of the pods that were released in the last 5 minutes.",
            queries=tuple(
                Query(
                    f"histogram_quantile({quantile}, "
                    "sum by (le) (rate(bursar_release_seconds_bucket[5m])))",
                    f"{quantile}",
                )
                for quantile in ("0.5", "0.9", "0.99")
            ),
            unit="s",
        ),
        Panel(
            title="Tries to remove a gate by outcome",
            description="Anything but lifted and changed should be rare.",
            queries=(Query("sum by (answer) (rate(bursar_lifts_total[5m]))", "{{answer}}"),),
            unit="cps",
        ),
        Panel(
            title="Releases in flight",
            description="Pods whose gate is being removed, and pods to be decided about next.",
            queries=(
                Query("sum(bursar_releases_in_flight)", "in flight"),
                Query("sum(bursar_undecided_pods)", "undecided"),
            ),
        ),
        Panel(
            title="Full namespaces",
            description="Namespaces in which no more pods may wait.",
            queries=(Query("sum(bursar_full_queues)", "full"),),
        ),
    ),
)

QUOTAS: Final = Row(
    "Quotas",
    (
        Panel(
            title="Use of quotas",
            description="The 20 fullest ApplicationAwareResourceQuotas: used divided by hard.",
            queries=(
                Query(
                    f"topk(20, {_NAMESPACED}{_USED}{_NAMESPACED}{{type='hard'}})",
                    "{{namespace}}/{{resourcequota}} {{resource}}",
                ),
            ),
            unit="percentunit",
        ),
        Panel(
            title="Use of cluster-wide quotas",
            description="The 20 fullest ApplicationAwareClusterResourceQuotas: used by hard.",
            queries=(
                Query(
                    f"topk(20, {_CLUSTER}{_USED}{_CLUSTER}{{type='hard'}})",
                    "{{clusterresourcequota}} {{resource}}",
                ),
            ),
            unit="percentunit",
        ),
        Panel(
            title="Cluster-wide quotas by namespace",
            description="The 20 largest parts of namespaces.",
            queries=(
                Query(
                    f"topk(20, {_CLUSTER}_namespace_used)",
                    "{{clusterresourcequota}} {{namespace}} {{resource}}",
                ),
            ),
        ),
        Panel(
            title="Overdrawn quotas",
            description="By how much a quota is charged more than it allows.",
            queries=(Query("bursar_ledger_debt", "{{namespace}}/{{quota}} {{resource}}"),),
        ),
        Panel(
            title="Quotas that are not in force",
            description="Quotas whose condition Ready is False, by reason.",
            queries=(Query("sum by (reason) (bursar_quotas_not_ready)", "{{reason}}"),),
        ),
        Panel(
            title="Ledger and recount",
            description="Accounts that differ from a recount of all pods. Expected: 0.",
            queries=(Query("max(bursar_ledger_drift_accounts)", "accounts that differ"),),
        ),
    ),
)

COUNTING: Final = Row(
    "Counting and capacity",
    (
        Panel(
            title="Counting policies",
            description="Pods that a policy counts, and pods for which it has no result.",
            queries=(
                Query("sum by (policy) (bursar_policy_pods)", "{{policy}}"),
                Query("sum by (policy) (bursar_policy_failed_pods)", "{{policy}} failed"),
            ),
        ),
        Panel(
            title="Sidecars",
            description="Sidecars that are connected and expected, and failed questions.",
            queries=(
                Query("sum(bursar_sidecar_connected)", "connected"),
                Query("sum(bursar_sidecar_expected)", "expected"),
                Query("sum by (failure) (rate(bursar_sidecar_failures_total[5m]))", "{{failure}}"),
            ),
        ),
        Panel(
            title="Capacity of nodes",
            description="Extended resources that Bursar keeps: capacity, use, and what waits.",
            queries=(
                Query("sum by (resource) (bursar_node_capacity)", "{{resource}} capacity"),
                Query("sum by (resource) (bursar_node_capacity_used)", "{{resource}} used"),
                Query("sum by (resource) (bursar_capacity_waiting)", "{{resource}} waiting"),
            ),
        ),
    ),
)

PROCESSES: Final = Row(
    "Controller and webhook",
    (
        Panel(
            title="Leader",
            description="1 while one replica leads.",
            queries=(Query(f"sum(bursar_leader{{service='{CONTROLLER}'}})", "leaders"),),
        ),
        Panel(
            title="Age of caches",
            description="Time since a cache was last known to be current.",
            queries=(
                Query("max by (resource) (bursar_informer_staleness_seconds)", "{{resource}}"),
            ),
            unit="s",
        ),
        Panel(
            title="Objects in caches",
            description="By resource.",
            queries=(Query("max by (resource) (bursar_informer_objects)", "{{resource}}"),),
        ),
        Panel(
            title="Requests to the API server",
            description="In flight, waiting for the limiter, and throttled by the API server.",
            queries=(
                Query("sum(bursar_limiter_in_flight)", "in flight"),
                Query("sum(bursar_limiter_waiting)", "waiting"),
                Query("sum(rate(bursar_limiter_throttled_total[5m]))", "throttled per second"),
            ),
        ),
        Panel(
            title="Writes of reconcile loops",
            description="Objects written, and failures by class of the error, per second.",
            queries=(
                Query("sum by (loop) (rate(bursar_reconcile_writes_total[5m]))", "{{loop}}"),
                Query(
                    "sum by (loop, error) (rate(bursar_reconcile_failures_total[5m]))",
                    "{{loop}} {{error}}",
                ),
            ),
            unit="cps",
        ),
        Panel(
            title="Events",
            description="Events that wait, and events that were dropped per second.",
            queries=(
                Query(f"sum(bursar_event_waiting{{service='{CONTROLLER}'}})", "waiting"),
                Query(
                    "sum by (reason) "
                    f"(rate(bursar_event_dropped_total{{service='{CONTROLLER}'}}[5m]))",
                    "dropped {{reason}}",
                ),
            ),
        ),
        Panel(
            title="Admission reviews",
            description="Reviews by result, and peer pods by outcome, per second.",
            queries=(
                Query("sum by (end) (rate(bursar_admission_reviews_total[5m]))", "{{end}}"),
                Query(
                    "sum by (end) (rate(bursar_peerpods_reviewed_total[5m]))", "peer pods {{end}}"
                ),
            ),
            unit="reqps",
        ),
        Panel(
            title="Certificates",
            description="Time until the serving certificates expire.",
            queries=(
                Query(
                    "min by (service) (bursar_serving_certificate_expires_seconds)", "{{service}}"
                ),
                Query(
                    "min by (certificate) (bursar_kept_certificate_expires_seconds)",
                    "kept {{certificate}}",
                ),
            ),
            unit="s",
        ),
        Panel(
            title="Memory",
            description="Resident memory of each replica.",
            queries=(Query(f"process_resident_memory_bytes{{{_PROCESSES}}}", "{{pod}}"),),
            unit="bytes",
        ),
        Panel(
            title="Memory per pod",
            description="Memory of the leader, divided by the pods that it knows.",
            queries=(
                Query(
                    f"sum by (pod) (process_resident_memory_bytes{{service='{CONTROLLER}'}}) / "
                    "sum by (pod) (bursar_informer_objects{resource='pods'} > 0)",
                    "{{pod}}",
                ),
            ),
            unit="bytes",
        ),
        Panel(
            title="CPU",
            description="CPU time of each replica, per second.",
            queries=(Query(f"rate(process_cpu_seconds_total{{{_PROCESSES}}}[5m])", "{{pod}}"),),
        ),
        Panel(
            title="Traces",
            description="Spans that were sent or dropped, per second.",
            queries=(
                Query("sum(rate(bursar_trace_spans_exported_total[5m]))", "sent"),
                Query(
                    "sum by (reason) (rate(bursar_trace_spans_dropped_total[5m]))",
                    "dropped: {{reason}}",
                ),
            ),
            unit="cps",
        ),
    ),
)

AGENTS: Final = Row(
    "Agents of nodes",
    (
        Panel(
            title="Answers that are not complete",
            description="By cause, per second, over all nodes.",
            queries=(
                Query("sum by (how) (rate(bursar_pod_resources_degraded_total[5m]))", "{{how}}"),
            ),
            unit="cps",
        ),
        Panel(
            title="Problems in device annotations",
            description="Problems of the current pods, by kind, over all nodes.",
            queries=(Query("sum by (kind) (bursar_device_problems)", "{{kind}}"),),
        ),
        Panel(
            title="Calls of clients",
            description="By outcome, per second, over all nodes.",
            queries=(
                Query("sum by (code) (rate(bursar_pod_resources_requests_total[5m]))", "{{code}}"),
            ),
            unit="reqps",
        ),
    ),
)

DISK: Final = Row(
    "Local storage of nodes",
    (
        Panel(
            title="Use of local storage",
            description="By kind, over all nodes whose agents account for it.",
            queries=(Query("sum by (kind) (bursar_disk_used_bytes)", "{{kind}}"),),
            unit="bytes",
        ),
        Panel(
            title="Pods that the kubelet evicts",
            description="Pods that exceed a limit of local storage, by limit, over all nodes.",
            queries=(Query("sum by (limit) (bursar_disk_pods_over_limit)", "{{limit}}"),),
        ),
        Panel(
            title="Age of figures",
            description="Maximum time after which a change of a file is seen.",
            queries=(Query("max(bursar_disk_age_seconds)", "age"),),
            unit="s",
        ),
    ),
)

EXTENDER: Final = Row(
    "Cluster-level resources",
    (
        Panel(
            title="Use of ClusterResources",
            description="What bound pods hold, as a share of the capacity.",
            queries=(
                Query(
                    "max by (cluster_resource) (bursar_cluster_resource_used)"
                    " / max by (cluster_resource) (bursar_cluster_resource_capacity)",
                    "{{cluster_resource}}",
                ),
            ),
            unit="percentunit",
        ),
        Panel(
            title="Pods that wait for a ClusterResource",
            description="Pods that request it and hold nothing.",
            queries=(
                Query(
                    "max by (cluster_resource) (bursar_cluster_resource_waiting_pods)",
                    "{{cluster_resource}}",
                ),
            ),
        ),
        Panel(
            title="Requests of schedulers",
            description="By verb and end, per second.",
            queries=(
                Query(
                    "sum by (verb, end) (rate(bursar_extender_requests_total[5m]))",
                    "{{verb}} {{end}}",
                ),
            ),
            unit="reqps",
        ),
    ),
)

OPERATOR: Final = Row(
    "Operator",
    (
        Panel(
            title="Conditions of the AAQ object",
            description="1 if the condition is true.",
            queries=(Query("max by (type) (bursar_operator_condition)", "{{type}}"),),
        ),
        Panel(
            title="Replicas that are missing",
            description="Replicas that a Deployment of the installation should have and has not.",
            queries=(
                Query(
                    "max by (deployment) (bursar_operator_wanted_replicas)"
                    " - max by (deployment) (bursar_operator_ready_replicas)",
                    "{{deployment}}",
                ),
            ),
        ),
        Panel(
            title="Objects written",
            description="Objects of the installation that were written, or refused, per second.",
            queries=(
                Query("sum by (outcome) (rate(bursar_operator_writes_total[5m]))", "{{outcome}}"),
            ),
            unit="cps",
        ),
    ),
)

ROWS: Final = (WAITING, QUOTAS, COUNTING, PROCESSES, AGENTS, DISK, EXTENDER, OPERATOR)
