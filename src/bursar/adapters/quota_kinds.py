"""Where a cluster keeps quotas and namespaces, how they are followed, and who brings the kinds.

Five of the kinds are AAQ's own: the same group, names and fields, so that manifests and
programs made for it go on working. Their definitions are packaged with Bursar, to be
installed on a real cluster or given to an embedded one.
"""

from pathlib import Path
from random import Random
from typing import Final, TypeAlias

import yaml

import bursar
from bursar.adapters.observed import Cluster, observe
from bursar.app.informer import Informer
from bursar.app.informer_store import Sighting
from bursar.app.ports import Clock, Json, Resource
from bursar.core.model.namespace import NamespaceObject
from bursar.core.quota.quota import QuotaKind
from bursar.core.quota.reported import QuotaObject
from bursar.wire.namespace import decode_namespace
from bursar.wire.quota_objects import decode_quota

GROUP: Final = "aaq.kubevirt.io"
_VERSION: Final = "v1alpha1"
_CRDS: Final = "api/crds"


def _custom(kind: str, *, is_namespaced: bool) -> Resource:
    return Resource(GROUP, _VERSION, f"{kind.lower()}s", kind, is_namespaced)


NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", is_namespaced=False)
RESOURCE_QUOTAS: Final = Resource("", "v1", "resourcequotas", "ResourceQuota")
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
)
"""The kinds that the packaged definitions bring."""

RESOURCE_OF: Final = {
    QuotaKind.NATIVE: RESOURCE_QUOTAS,
    QuotaKind.NAMESPACED: APPLICATION_QUOTAS,
    QuotaKind.CLUSTER: CLUSTER_QUOTAS,
}

ObservedQuota: TypeAlias = Sighting[QuotaObject]
ObservedNamespace: TypeAlias = Sighting[NamespaceObject]


def observe_quotas(
    cluster: Cluster, clock: Clock, random: Random, kind: QuotaKind
) -> Informer[ObservedQuota]:
    """All quotas of one kind. The informer does nothing until it is run."""

    def decode(body: bytes) -> QuotaObject:
        return decode_quota(kind, body)

    return observe(cluster, clock, random, RESOURCE_OF[kind], decode)


def observe_namespaces(
    cluster: Cluster, clock: Clock, random: Random
) -> Informer[ObservedNamespace]:
    """All namespaces of a cluster."""
    return observe(cluster, clock, random, NAMESPACES, decode_namespace)


def crd_folder() -> Path:
    """Where the definitions are: beside the package in a checkout, inside it where installed."""
    package = Path(bursar.__file__).parent
    folders = [root / _CRDS for root in (package.parents[1], package)]
    found = next((folder for folder in folders if folder.is_dir()), None)
    assert found is not None, "the definitions are a part of the package"
    return found


def crd_documents() -> list[dict[str, Json]]:
    """The definitions of AAQ's kinds, each as the CustomResourceDefinition it is."""
    return [yaml.safe_load(path.read_bytes()) for path in sorted(crd_folder().glob("*.yaml"))]
