"""The kinds of quota. AAQ's have AAQ's group and names, so that existing manifests work."""

from typing import Final

from bursar.app.cluster.kinds import RESOURCE_QUOTAS
from bursar.app.cluster.ports import Resource
from bursar.app.counting.kinds import COUNTING_POLICIES
from bursar.core.quota.quota import QuotaKind

GROUP: Final = "aaq.kubevirt.io"
LABEL: Final = GROUP
LABEL_VALUE: Final = "true"
"""Label and value on every object that the controller keeps for a quota."""
VERSION: Final = "v1alpha1"


def _custom(kind: str, *, is_namespaced: bool) -> Resource:
    return Resource(GROUP, VERSION, f"{kind.lower()}s", kind, is_namespaced)


AAQS: Final = _custom("AAQ", is_namespaced=False)
APPLICATION_QUOTAS: Final = _custom(QuotaKind.NAMESPACED.value, is_namespaced=True)
CLUSTER_QUOTAS: Final = _custom(QuotaKind.CLUSTER.value, is_namespaced=False)
APPLIED_CLUSTER_QUOTAS: Final = _custom(
    "ApplicationAwareAppliedClusterResourceQuota", is_namespaced=True
)
JOB_QUEUE_CONFIGS: Final = _custom("AAQJobQueueConfig", is_namespaced=True)

CUSTOM_KINDS: Final = (
    AAQS,
    APPLICATION_QUOTAS,
    CLUSTER_QUOTAS,
    APPLIED_CLUSTER_QUOTAS,
    JOB_QUEUE_CONFIGS,
    COUNTING_POLICIES,
)
"""The kinds that the packaged CustomResourceDefinitions define."""

CLUSTER_RESOURCE_QUOTAS: Final = Resource(
    "quota.openshift.io",
    "v1",
    "clusterresourcequotas",
    QuotaKind.OPENSHIFT.value,
    is_namespaced=False,
)
"""OpenShift's quotas over several namespaces. Other clusters do not have them."""

QUOTAS: Final = {
    QuotaKind.NATIVE: RESOURCE_QUOTAS,
    QuotaKind.NAMESPACED: APPLICATION_QUOTAS,
    QuotaKind.CLUSTER: CLUSTER_QUOTAS,
    QuotaKind.OPENSHIFT: CLUSTER_RESOURCE_QUOTAS,
}
"""The resource of each kind of quota."""
