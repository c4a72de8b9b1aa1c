"""Manifests for the Prometheus operator: what is scraped, and which alerts follow from it.

Each alert has a runbook on the page `RUNBOOKS`, under the alert's name.
"""

from dataclasses import dataclass
from typing import Final

from bursar.app.certificates import aaq_names
from bursar.app.certificates.names import TLS_SECRET
from bursar.app.install.documents import Document, document, require_namespace
from bursar.app.install.workloads import COMPONENT, NAME, labels_of
from bursar.app.names import CONTROLLER, WEBHOOK
from bursar.app.operator.names import OPERATOR
from bursar.app.quota.kinds import GROUP as AAQ_GROUP

GROUP: Final = "monitoring.coreos.com/v1"
RUNBOOKS: Final = "docs/reference/alerts.md"
"""The page of runbooks, as a path of Bursar's repository."""
CREDENTIALS: Final = "/var/run/secrets/kubernetes.io/serviceaccount/token"
"""The token of Prometheus' own service account, in its pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """An alert of Prometheus. `description` may use its templates."""

    name: str
    expression: str
    minutes: int
    """How long the expression must hold."""
    severity: str
    summary: str
    description: str


ALERTS: Final = (
    Alert(
        name="BursarControllerDown",
        expression=f"absent(bursar_leader{{service='{CONTROLLER}'}} == 1)",
        minutes=5,
        severity="critical",
        summary="No controller of Bursar leads.",
        description="New pods of gated namespaces wait until a controller leads again.",
    ),
    Alert(
        name="BursarWebhookDown",
        expression=f"up{{service='{WEBHOOK}'}} == 0",
        minutes=5,
        severity="critical",
        summary="A replica of Bursar's webhook cannot be reached.",
        description="If none answers, the API server refuses what the webhook should review.",
    ),
    Alert(
        name="BursarReleasesStuck",
        expression="bursar_releases_in_flight > 0 and increase(bursar_released_total[10m]) == 0",
        minutes=10,
        severity="critical",
        summary="The controller fails to remove scheduling gates.",
        description="{{ $value }} releases are in flight, and none has succeeded in 10 minutes.",
    ),
    Alert(
        name="BursarLedgerDrift",
        expression="bursar_ledger_drift_accounts > 0",
        minutes=5,
        severity="warning",
        summary="The ledger differs from a recount of all pods.",
        description="{{ $value }} accounts differ. This is a defect of Bursar; please report it.",
    ),
    Alert(
        name="BursarQuotaOverdrawn",
        expression="bursar_ledger_debt > 0",
        minutes=15,
        severity="warning",
        summary="A quota is overdrawn.",
        description=(
            "{{ $labels.kind }} {{ $labels.namespace }}/{{ $labels.quota }} is charged "
            "{{ $value }} more of {{ $labels.resource }} than it allows."
        ),
    ),
    Alert(
        name="BursarStaleCache",
        expression="max by (resource) (bursar_informer_staleness_seconds) > 120",
        minutes=5,
        severity="warning",
        summary="A cache of the controller is stale.",
        description="The cache of {{ $labels.resource }} was last known to be current "
        "{{ $value }} seconds ago.",
    ),
    Alert(
        name="BursarWritesFail",
        # A limit that its author wrote wrongly is for BursarQuotaNotInForce.
        expression=(
            "sum by (loop, error) (rate(bursar_reconcile_failures_total[10m]) unless "
            "rate(bursar_reconcile_failures_total{loop='managed',error='InvalidError'}[10m])) > 0"
        ),
        minutes=15,
        severity="warning",
        summary="The controller cannot write objects.",
        description="Loop {{ $labels.loop }} fails with {{ $labels.error }}.",
    ),
    Alert(
        name="BursarQuotaNotInForce",
        expression="sum by (reason) (bursar_quotas_not_ready{reason!='NotCounted'}) > 0",
        minutes=15,
        severity="warning",
        summary="Limits of a quota are not in force.",
        description="{{ $value }} quotas are not ready: {{ $labels.reason }}.",
    ),
    Alert(
        name="BursarQuotaKindMissing",
        expression="bursar_quota_kind_missing > 0",
        minutes=1,
        severity="critical",
        summary="The definition of a kind of quota was deleted.",
        description="The last limits of each {{ $labels.kind }} stay in force.",
    ),
    Alert(
        name="BursarGatingMismatch",
        expression="bursar_gating_mismatch > 0",
        minutes=1,
        severity="critical",
        summary="Policies or webhooks gate other namespaces than the controller targets.",
        description="{{ $labels.object }} differs. Where the two disagree, no pod is released.",
    ),
    Alert(
        name="BursarQueueFull",
        expression="bursar_full_queues > 0",
        minutes=15,
        severity="warning",
        summary="Namespaces have the maximum number of waiting pods.",
        description="The API server refuses new pods in {{ $value }} namespaces.",
    ),
    Alert(
        name="BursarCertificateExpires",
        expression="bursar_serving_certificate_expires_seconds < 4 * 3600",
        minutes=10,
        severity="critical",
        summary="A serving certificate of Bursar expires and was not renewed.",
        description="{{ $labels.pod }} serves it for another {{ $value }} seconds.",
    ),
    Alert(
        name="BursarOperatorDegraded",
        expression="bursar_operator_condition{type='Degraded'} == 1",
        minutes=10,
        severity="warning",
        summary="The installation differs from the AAQ object.",
        description="Reason: {{ $labels.reason }}. The condition of the object says what is wrong.",
    ),
    Alert(
        name="BursarQuotaNotCounted",
        expression="bursar_quotas_not_counted > 0",
        minutes=15,
        severity="warning",
        summary="A quota limits a name that nothing counts.",
        description="{{ $value }} quotas name a resource that no counter charges.",
    ),
)


def monitoring_documents(namespace: str, *, has_operator: bool = False) -> tuple[Document, ...]:
    """A ServiceMonitor for each process, and a PrometheusRule.

    An installation by the operator has its certificates in AAQ's Secret, and one process more.
    """
    require_namespace(namespace)
    secret = aaq_names.TLS_SECRET if has_operator else TLS_SECRET
    components = {CONTROLLER: "controller", WEBHOOK: "webhook"}
    found = [
        _monitor(namespace, name, secret, name, {NAME: "bursar", COMPONENT: component}, component)
        for name, component in components.items()
    ]
    if has_operator:
        # It serves the certificate of the other processes, which has their names.
        selected: Document = {NAME: "bursar", AAQ_GROUP: OPERATOR}
        found.append(_monitor(namespace, OPERATOR, secret, CONTROLLER, selected, "operator"))
    return (*found, _rules(namespace))


def _monitor(
    namespace: str, service: str, secret: str, server: str, selected: Document, component: str
) -> Document:
    labels = labels_of(component)
    found = document(GROUP, "ServiceMonitor", service, namespace=namespace, labels=labels)
    authority: Document = {"secret": {"name": secret, "key": "ca.crt"}}
    found["spec"] = {
        "selector": {"matchLabels": selected},
        "endpoints": [
            {
                "port": "https",
                "scheme": "https",
                # The label `namespace` of a quota's metric is that of the quota, not of the pod.
                "honorLabels": True,
                "bearerTokenFile": CREDENTIALS,
                "tlsConfig": {"ca": authority, "serverName": f"{server}.{namespace}.svc"},
            }
        ],
    }
    return found


def _rules(namespace: str) -> Document:
    labels = labels_of("alerts")
    found = document(GROUP, "PrometheusRule", "bursar", namespace=namespace, labels=labels)
    found["spec"] = {"groups": [{"name": "bursar", "rules": [_rule(each) for each in ALERTS]}]}
    return found


def _rule(alert: Alert) -> Document:
    return {
        "alert": alert.name,
        "expr": alert.expression,
        "for": f"{alert.minutes}m",
        "labels": {"severity": alert.severity},
        "annotations": {
            "summary": alert.summary,
            "description": alert.description,
            "runbook_url": f"{RUNBOOKS}#{alert.name.lower()}",
        },
    }
