"""Metrics of the webhook, and those that several processes print."""

from typing import Final

from bursar.adapters.telemetry.catalogue.metric import (
    AGENT,
    EVERY,
    LEADERS,
    SERVERS,
    TRACED,
    WEBHOOK,
    Section,
    metric,
)

WEBHOOKS: Final = Section(
    "webhook",
    (
        metric(
            "bursar_admission_reviews_total",
            "Admission reviews by result: allowed, denied or error.",
            "end",
            processes=WEBHOOK,
        ),
        metric(
            "bursar_peerpods_reviewed_total",
            "Pods reviewed by the peer pod webhook, by outcome.",
            "end",
            processes=WEBHOOK,
        ),
        metric(
            "bursar_peerpods_annotations_overwritten_total",
            "Size annotations of pod authors that the rewrite replaced.",
            processes=WEBHOOK,
        ),
    ),
)

EVENTS: Final = Section(
    "events",
    (
        metric(
            "bursar_event_dropped_total",
            "Events that were not written, by reason.",
            "reason",
            processes=LEADERS + AGENT,
        ),
        metric(
            "bursar_event_waiting",
            "Events that wait to be written.",
            processes=LEADERS + AGENT,
        ),
    ),
)

SERVED_CERTIFICATE: Final = Section(
    "served-certificate",
    (
        metric(
            "bursar_serving_certificate_expires_seconds",
            "Seconds until the certificate that this process serves expires; negative afterwards.",
            processes=SERVERS,
        ),
        metric(
            "bursar_serving_certificate_loads_total",
            "Certificates that this process has begun to serve.",
            processes=SERVERS,
        ),
        metric(
            "bursar_serving_certificate_invalid_total",
            "Certificates that could not be used; the one before stayed in use.",
            processes=SERVERS,
        ),
    ),
)

TRACES: Final = Section(
    "traces",
    (
        metric(
            "bursar_trace_spans_exported_total",
            "Spans that the collector of traces accepted.",
            processes=TRACED,
        ),
        metric(
            "bursar_trace_spans_dropped_total",
            "Spans that were not sent, by reason: queue-full, unreachable or refused.",
            "reason",
            processes=TRACED,
        ),
    ),
)

PROCESS: Final = Section(
    "process",
    (
        metric(
            "bursar_build_info",
            "Always 1; the label tells the version.",
            "version",
            unit="1",
            processes=EVERY,
        ),
        metric(
            "process_cpu_seconds_total", "User and system CPU time, in seconds.", processes=EVERY
        ),
        metric(
            "process_start_time_seconds",
            "Start time of the process, in seconds since 1970.",
            processes=EVERY,
        ),
        metric("process_virtual_memory_bytes", "Virtual memory.", processes=EVERY),
        metric("process_resident_memory_bytes", "Resident memory.", processes=EVERY),
        metric("process_open_fds", "Open file descriptors.", processes=EVERY),
        metric("process_max_fds", "Maximum number of open file descriptors.", processes=EVERY),
        metric(
            "bursar_metrics_omitted_samples",
            "Samples left out of this answer because a family has too many.",
            "family",
            processes=EVERY,
        ),
    ),
)
