"""Names by which Bursar's processes find each other in a cluster; AAQ's names where it has them."""

from typing import Final

CONTROLLER: Final = "aaq-controller"
"""The controller's service account, Lease, Service and event component.

The Lease is that of AAQ's own controller, so that the two never act at the same time.
"""
WEBHOOK: Final = "aaq-server"
"""The admission server's service account and Service."""
ADDRESS_ANNOTATION: Final = "bursar.io/address"
"""Annotation of the Lease: the URL at which the leader answers requests for resizes."""
PROMISES: Final = "bursar-resizes"
"""The ConfigMap in which the leader records the resizes that it has promised."""
PEER_PODS_PATH: Final = "/mutate-v1-pod"
"""Path of the webhook for peer pods, as in upstream's webhook."""
RESIZES_PATH: Final = "/v1/resizes"
"""Path of the leader's resize service."""
GATING_ANNOTATION: Final = "bursar.io/gating"
"""Annotation of the controller's service account: whether new pods get the scheduling gate."""
GATING_ACTIVE: Final = "active"
"""Its value from when a controller has read the cluster for the first time."""
FULL_QUEUES_ANNOTATION: Final = "bursar.io/full-queues"
"""Annotation of the controller's service account: the namespaces in which no more pods may wait."""
APPLIED_QUOTAS_ANNOTATION: Final = "bursar.io/applied-quotas"
"""Annotation of an AAQ object: whose usage the copies of cluster-wide quotas show; own or all."""

GATING_POLICY: Final = "gate-pods.bursar.io"
"""The MutatingAdmissionPolicy that gates pods, and its binding."""
PROTECTION_POLICY: Final = "protect-gate.bursar.io"
"""The ValidatingAdmissionPolicy that lets only the controller remove gates, and its binding."""
WAITING_PODS_POLICY: Final = "limit-waiting-pods.bursar.io"
"""The ValidatingAdmissionPolicy that refuses pods of full namespaces, and its binding."""
GATING_WEBHOOKS: Final = "gating-mutator"
"""The MutatingWebhookConfiguration that gates pods."""
PROTECTION_WEBHOOKS: Final = "aaq-validator"
"""The ValidatingWebhookConfiguration that protects gates and checks quotas."""
GATING_WEBHOOK: Final = "gater.cqo.kubevirt.io"
REMOVAL_WEBHOOK: Final = "remove.pod.gate.validator"
RESIZE_WEBHOOK: Final = "resize.pod.quota.validator"
POD_WEBHOOKS: Final = (GATING_WEBHOOK, REMOVAL_WEBHOOK, RESIZE_WEBHOOK)
"""The webhooks of both configurations that apply to pods of gated namespaces."""
