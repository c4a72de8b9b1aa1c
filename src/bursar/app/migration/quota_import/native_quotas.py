"""Import of quotas: a ResourceQuota or ClusterResourceQuota as a quota that holds pods at the gate.

Pure functions, from the object to the manifest and to what the manifest cannot express.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from bursar.app.cluster.ports import Json, Key, Resource
from bursar.app.quota.kinds import LABEL, QUOTAS
from bursar.app.quota.managed.names import CLUSTER_MANAGED_SUFFIX, MANAGED_SUFFIX
from bursar.app.quota.status_document import texts
from bursar.core.model.resources import ResourceList
from bursar.core.quota.names import is_schedulable
from bursar.core.quota.quota import Quota, QuotaKind
from bursar.core.quota.targeting import KUBE_SYSTEM, is_spared
from bursar.wire.aaq_installation import Metadata

COMPUTE: Final = frozenset(
    {
        *("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"),
        *("ephemeral-storage", "requests.ephemeral-storage", "limits.ephemeral-storage"),
    }
)
"""Names for which a ResourceQuota refuses pods that state no amount."""
BOTH_COUNT: Final = (
    "Both quotas count while both exist. The original refuses a pod at its creation, so that the "
    "pod never waits at the gate. When you have checked the new quota, delete the original."
)
_DROPPED: Final = ("kubectl.kubernetes.io/last-applied-configuration",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Original:
    """A quota to import."""

    resource: Resource
    metadata: Metadata
    quota: Quota
    selector: Json = None
    """`spec.selector` of a ClusterResourceQuota, as it is written."""

    @property
    def key(self) -> Key:
        return Key(self.metadata.namespace, self.metadata.name)

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.key}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """The manifest of the new quota, and what differs from the original."""

    original: Original
    resource: Resource
    manifest: dict[str, Json] | None
    """None if the quota cannot be imported."""
    notes: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    """The names of limits that only the original can enforce."""

    @property
    def is_replaceable(self) -> bool:
        """Whether the new quota enforces every limit of the original."""
        return self.manifest is not None and not self.left_out


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What an import depends on besides the quota."""

    home: str
    """The namespace of Bursar."""
    gated: Collection[str] | None = None
    """The namespaces in which pods are gated; None if that is not known."""


def imported(original: Original, around: Surroundings) -> Imported:
    """The new quota."""
    is_cluster_wide = not original.metadata.namespace
    kind = QuotaKind.CLUSTER if is_cluster_wide else QuotaKind.NAMESPACED
    resource = QUOTAS[kind]
    refusal = _refusal(original, around)
    if refusal:
        return Imported(original=original, resource=resource, manifest=None, notes=(refusal,))
    hard = original.quota.hard
    left_out = [name for name in sorted(hard) if is_cluster_wide and not is_schedulable(name)]
    kept = {name: amount for name, amount in hard.items() if name not in left_out}
    if hard and not kept:
        notes = (_left_out(left_out),)
        return Imported(original=original, resource=resource, manifest=None, notes=notes)
    return Imported(
        original=original,
        resource=resource,
        manifest=_manifest(original, resource, kept),
        notes=tuple(_notes(original, around, left_out)),
        left_out=tuple(left_out),
    )


def _refusal(original: Original, around: Surroundings) -> str:
    """Why a quota is not imported; empty if it is."""
    name, namespace = original.metadata.name, original.metadata.namespace
    if name.endswith((MANAGED_SUFFIX, CLUSTER_MANAGED_SUFFIX)) or LABEL in original.metadata.labels:
        return "It belongs to a quota of AAQ or Bursar."
    if namespace and is_spared(namespace, around.home):
        where = "kube-system" if namespace == KUBE_SYSTEM else "the namespace of Bursar"
        return f"Pods of {where} are never gated, so a quota there would hold back no pod."
    if original.quota.problem:
        return f"It cannot be read: {original.quota.problem}."
    if not namespace and not _selects(original.selector):
        return (
            "It selects no namespaces. A cluster-wide quota without a selector covers all of them."
        )
    return ""


def _selects(selector: Json) -> bool:
    return isinstance(selector, Mapping) and any(
        selector.get(part) is not None for part in ("labels", "annotations")
    )


def _notes(original: Original, around: Surroundings, left_out: list[str]) -> Iterator[str]:
    quota, namespace = original.quota, original.metadata.namespace
    if left_out:
        yield f"{_left_out(left_out)} Keep the original for these limits."
    delegated = [name for name in sorted(quota.hard) if not is_schedulable(name)]
    if namespace and delegated:
        text = f"{', '.join(delegated)}: Bursar leaves these limits to a ResourceQuota of its own, "
        yield f"{text}which refuses objects at their creation, as the original does."
    compute = [name for name in sorted(quota.hard) if name in COMPUTE]
    if compute:
        text = f"The original refuses pods that state nothing for {', '.join(compute)}. The new "
        yield f"{text}quota counts nothing for such pods. A LimitRange can give them defaults."
    if namespace and around.gated is not None and namespace not in around.gated:
        text = "Pods of its namespace are not gated, so the new quota holds back no pod. Label "
        yield f"{text}the namespace before you delete the original."
    for owner in original.metadata.owners:
        yield f"{owner} owns the original, and does not keep the new quota up to date."


def _left_out(names: list[str]) -> str:
    text = f"{', '.join(names)} cannot be carried over: a cluster-wide quota of Bursar limits "
    return f"{text}only what a scheduling gate can hold back."


def _manifest(original: Original, resource: Resource, hard: ResourceList) -> dict[str, Json]:
    metadata: dict[str, Json] = {"name": original.metadata.name}
    if original.metadata.namespace:
        metadata["namespace"] = original.metadata.namespace
    if original.metadata.labels:
        metadata["labels"] = dict(original.metadata.labels)
    annotations = {
        key: value for key, value in original.metadata.annotations.items() if key not in _DROPPED
    }
    if annotations:
        metadata["annotations"] = dict(annotations)
    quota = _spec(original.quota, hard)
    spec: dict[str, Json] = quota
    if not original.metadata.namespace:
        spec = {"quota": quota, "selector": original.selector}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": metadata,
        "spec": spec,
    }


def _spec(quota: Quota, hard: ResourceList) -> dict[str, Json]:
    spec: dict[str, Json] = {"hard": texts(hard)}
    listed: list[Json] = [rule.scope for rule in quota.scopes if rule.is_listed]
    if listed:
        spec["scopes"] = listed
    expressions: list[Json] = [
        {
            "scopeName": rule.scope,
            "operator": rule.operator,
            **({"values": list(rule.values)} if rule.values else {}),
        }
        for rule in quota.scopes
        if not rule.is_listed
    ]
    if expressions:
        spec["scopeSelector"] = {"matchExpressions": expressions}
    return spec
