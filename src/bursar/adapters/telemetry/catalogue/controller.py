"""Further metrics of the controller: informers, API client, loops, counting, capacity."""

from typing import Final

from bursar.adapters.telemetry.catalogue.metric import FLAG, LEADERS, Section, metric

INFORMER_COUNTERS: Final = {
    "events": "Watch events received.",
    "duplicates": "Watch events that changed nothing.",
    "bookmarks": "Watch bookmarks received.",
    "relists": "Full lists after the first one.",
    "watch_restarts": "Watches resumed after the previous one ended.",
    "expired": "Times that the resourceVersion of a watch or list had expired.",
    "failures": "Lists and watches that failed.",
    "decode_failures": "Objects that could not be decoded.",
    "over_limit": "Times that a list had more objects than the cache holds.",
}
"""The counters of an informer, with their help."""

INFORMERS: Final = Section(
    "informers",
    (
        metric("bursar_leader", "1 if this replica leads, else 0.", unit=FLAG, processes=LEADERS),
        metric(
            "bursar_informer_staleness_seconds",
            "Seconds since the cache was last known to be current; infinite before the first sync. "
            "While no object changes, the API server confirms it about once a minute.",
            "resource",
            processes=LEADERS,
        ),
        metric("bursar_informer_objects", "Objects in the cache.", "resource", processes=LEADERS),
        *(
            metric(f"bursar_informer_{name}_total", text, "resource", processes=LEADERS)
            for name, text in INFORMER_COUNTERS.items()
        ),
        metric("bursar_limiter_limit", "Maximum API requests in flight.", processes=LEADERS),
        metric("bursar_limiter_in_flight", "API requests in flight.", processes=LEADERS),
        metric(
            "bursar_limiter_waiting", "API requests that wait for the limiter.", processes=LEADERS
        ),
        metric(
            "bursar_limiter_throttled_total",
            "Times that the API server answered 429 or asked to retry later.",
            processes=LEADERS,
        ),
    ),
)

LOOPS: Final = Section(
    "loops",
    (
        metric(
            "bursar_reconciles_total", "Comparisons of an object with what it should be.", "loop"
        ),
        metric("bursar_reconcile_writes_total", "Objects written because they differed.", "loop"),
        metric(
            "bursar_reconcile_gone_total",
            "Writes to an object that did not exist any more.",
            "loop",
        ),
        metric(
            "bursar_reconcile_failures_total",
            "Reconciles that failed and are retried, by the class of the error.",
            *("loop", "error"),
        ),
    ),
)

SIDECARS: Final = Section(
    "sidecars",
    (
        metric("bursar_sidecar_connected", "Sidecars that are connected."),
        metric("bursar_sidecar_expected", "Sidecars that are expected."),
        metric("bursar_sidecar_calls_total", "Questions sent to sidecars, each about one pod."),
        metric(
            "bursar_sidecar_sweep_calls_total",
            "Questions that were repeated because other pods of the namespace changed.",
        ),
        metric("bursar_sidecar_failures_total", "Questions without a good answer.", "failure"),
        metric("bursar_sidecar_call_seconds_total", "Time of all questions, in seconds."),
        metric("bursar_sidecar_sent_bytes_total", "Bytes sent to sidecars."),
        metric("bursar_sidecar_held_pods", "Pods that wait for the answer of a sidecar."),
        metric(
            "bursar_sidecar_left_out_pods",
            "Pods counted without a sidecar that failed (--sidecar-failure native).",
        ),
    ),
)

POLICIES: Final = Section(
    "policies",
    (
        metric(
            "bursar_policy_valid",
            "Whether a CountingPolicy is valid (1), or has an error (0).",
            *("policy", "mode"),
            unit=FLAG,
        ),
        metric("bursar_policy_pods", "Pods that a CountingPolicy counts.", "policy", "mode"),
        metric(
            "bursar_policy_failed_pods",
            "Pods for which an expression of a CountingPolicy has no result.",
            *("policy", "mode"),
        ),
        metric(
            "bursar_policy_charges",
            "What a CountingPolicy charges, or in shadow mode would charge, in a namespace.",
            *("policy", "mode", "namespace", "resource", "unit"),
        ),
    ),
)

KEPT_CERTIFICATES: Final = Section(
    "kept-certificates",
    (
        metric(
            "bursar_kept_certificate_expires_seconds",
            "Seconds until a certificate that the leader keeps expires; negative afterwards.",
            "certificate",
        ),
        metric(
            "bursar_kept_certificates_made_total",
            "Certificates that the leader has made, by reason.",
            *("certificate", "reason"),
        ),
        metric(
            "bursar_kept_ca_bundles_written_total",
            "Webhook configurations whose caBundle the leader has written.",
        ),
    ),
)

CAPACITY: Final = Section(
    "capacity",
    (
        metric(
            "bursar_node_capacity",
            "Capacity of an extended resource that Bursar keeps on a node.",
            *("node", "resource"),
        ),
        metric(
            "bursar_node_capacity_used",
            "Requests of the node's pods for a resource that Bursar keeps.",
            *("node", "resource"),
        ),
        metric(
            "bursar_capacity_waiting",
            "Requests of pods without a node, in the whole cluster, for a resource that Bursar "
            "keeps.",
            "resource",
        ),
        metric(
            "bursar_capacity_waiting_pods",
            "Pods without a node that request a resource that Bursar keeps.",
            "resource",
        ),
        metric(
            "bursar_capacity_gated_pods",
            "Pods of bursar_capacity_waiting_pods that have a scheduling gate: free capacity alone "
            "would not start them.",
            "resource",
        ),
        metric(
            "bursar_capacity_healed_total",
            "Times that kept capacity was changed by another component and restored.",
        ),
    ),
)
