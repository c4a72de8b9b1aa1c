"""How quotas and namespaces are followed, and who brings their kinds.

The definitions of AAQ's kinds are packaged with Bursar, to be installed on a real cluster
or given to an embedded one.
"""

from pathlib import Path
from random import Random
from typing import Final, TypeAlias

import yaml

import bursar
from bursar.adapters.observed import Cluster, observe
from bursar.app.cluster.informer.informer import Informer
from bursar.app.cluster.informer.store import Sighting
from bursar.app.cluster.kinds import NAMESPACES
from bursar.app.cluster.ports import Clock, Json
from bursar.app.quota.kinds import QUOTAS
from bursar.core.model.namespace import NamespaceObject
from bursar.core.quota.quota import QuotaKind
from bursar.core.quota.reported import QuotaObject
from bursar.wire.model.namespace import decode_namespace
from bursar.wire.quota import decode_quota

_CRDS: Final = "api/crds"


ObservedQuota: TypeAlias = Sighting[QuotaObject]
ObservedNamespace: TypeAlias = Sighting[NamespaceObject]


def observe_quotas(
    cluster: Cluster, clock: Clock, random: Random, kind: QuotaKind
) -> Informer[ObservedQuota]:
    """All quotas of one kind. The informer does nothing until it is run."""

    def decode(body: bytes) -> QuotaObject:
        return decode_quota(kind, body)

    return observe(cluster, clock, random, QUOTAS[kind], decode)


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
