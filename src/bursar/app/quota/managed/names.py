"""The names of managed quotas, which are AAQ's."""

from typing import Final

from bursar.core.quota.quota import QuotaKey, QuotaKind

MANAGED_SUFFIX: Final = "-non-schedulable-resources-managed-rq-x"
"""AAQ's suffix on the name of the ResourceQuota that it manages for a quota."""
CLUSTER_MANAGED_SUFFIX: Final = "-non-schedulable-resources-managed-crq-x"
"""AAQ's suffix on the name of the ClusterResourceQuota that it manages for a cluster-wide quota."""

_MANAGED: Final = {
    QuotaKind.NAMESPACED: (QuotaKind.NATIVE, MANAGED_SUFFIX),
    QuotaKind.CLUSTER: (QuotaKind.OPENSHIFT, CLUSTER_MANAGED_SUFFIX),
}
"""By the kind of a quota: the kind of its managed quota, and the suffix of its name."""
_OWNERS: Final = {kind: (owner, suffix) for owner, (kind, suffix) in _MANAGED.items()}


def managed_key(key: QuotaKey) -> QuotaKey:
    """The ResourceQuota or ClusterResourceQuota that is managed for a quota of AAQ's kinds."""
    kind, suffix = _MANAGED[key.kind]
    return QuotaKey(kind, key.namespace, key.name + suffix)


def owner_key(key: QuotaKey) -> QuotaKey | None:
    """The quota that a managed quota belongs to; None for any other quota."""
    if key.kind not in _OWNERS:
        return None
    kind, suffix = _OWNERS[key.kind]
    name = key.name.removesuffix(suffix)
    return None if name in {key.name, ""} else QuotaKey(kind, key.namespace, name)
