"""Managed ResourceQuotas: limits that a scheduling gate cannot enforce are left to Kubernetes.

A limit on services or secrets can only be enforced when they are created, which Kubernetes
does for ResourceQuotas. For each quota of a namespace that has such limits, the controller
keeps a ResourceQuota with these limits and the same scopes, under the name that AAQ gives it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from bursar.app.cluster.informer.store import Sighting
from bursar.app.cluster.patches import fenced_patch, put
from bursar.app.cluster.ports import Json, Key, Preconditions
from bursar.app.cluster.reconcile import PendingWrites, Postponed, ReconcileContext, Reconciler
from bursar.app.log import Log
from bursar.app.quota.kinds import QUOTAS
from bursar.app.quota.status import FindQuota, managed_key, owner_key
from bursar.app.quota.status_document import (
    LABEL,
    LABEL_VALUE,
    is_owned,
    owned_metadata,
    ownership_operations,
    texts,
)
from bursar.core.quota.quota import Quota, QuotaKey, QuotaKind, QuotaObject
from bursar.core.quota.scopes import EXISTS
from bursar.core.quota.statement import delegated

MANAGED_SECONDS: Final = 0.5
"""Shortest time between two writes of one managed ResourceQuota."""
RECREATE_SECONDS: Final = 1.0
RECREATE_SECONDS_MAX: Final = 30.0
"""Back-off while another program deletes a managed ResourceQuota again and again: it doubles from
the first to the second. Until it is created again, its limits are not in force."""
CALM_SECONDS: Final = 60.0
"""A managed ResourceQuota that exists for this long ends the back-off."""

LOG: Final = Log("quota")
_RESOURCE: Final = QUOTAS[QuotaKind.NATIVE]


class Action(Enum):
    """What to do about a managed ResourceQuota."""

    NONE = "none"
    CREATE = "create"
    UPDATE = "update"
    """Its limits, its label or its owner are wrong."""
    REPLACE = "replace"
    """Its scopes are wrong, and the scopes of a ResourceQuota are immutable."""
    DELETE = "delete"


def action_for(
    owner: QuotaObject | None, managed: QuotaObject | None, *, is_terminating: bool = False
) -> Action:
    """What to do, given the quota, its managed ResourceQuota and the namespace's state."""
    if is_terminating or (managed is not None and managed.is_deleting):
        return Action.NONE
    if owner is not None and owner.quota.problem:
        return Action.NONE  # Its limits are not known, so those in force stay.
    if owner is None or not delegated(owner.quota.hard):
        return Action.DELETE if managed is not None and _is_ours(managed) else Action.NONE
    if owner.is_deleting:
        return Action.NONE
    if managed is None:
        return Action.CREATE
    if set(managed.quota.scopes) != set(owner.quota.scopes):
        return Action.REPLACE
    is_right = managed.quota.hard == delegated(owner.quota.hard) and is_owned(
        managed.labels, managed.owner_uid, owner.quota
    )
    return Action.NONE if is_right else Action.UPDATE


def _is_ours(managed: QuotaObject) -> bool:
    """Whether it has our label or an owner. One that a user made has neither, and is left."""
    return managed.labels.get(LABEL) == LABEL_VALUE or bool(managed.owner_uid)


class _Deletions(NamedTuple):
    allowed_at: float
    """When it may be created again, on the monotonic clock."""
    pause: float


@dataclass(eq=False, kw_only=True)
class ManagedWriter:
    """Creates, updates and deletes managed ResourceQuotas while its `reconciler` runs."""

    context: ReconcileContext
    find: FindQuota
    is_terminating: Callable[[str], bool]
    """Whether a namespace is being deleted; false for an unknown namespace."""
    on_refused: Callable[[QuotaKey, str], None] = lambda _key, _words: None
    """Called with a quota when the API server refuses its managed ResourceQuota, and after it."""
    interval_s: float = MANAGED_SECONDS

    def __post_init__(self) -> None:
        self._pending = PendingWrites[Quota]()
        """By managed ResourceQuota: the quota that it was last written for."""
        self._deletions: dict[Key, _Deletions] = {}
        """By managed ResourceQuota: how often it was deleted by others."""
        self._deleted_uids: set[str] = set()
        """Managed ResourceQuotas that were deleted here."""
        self.reconciler = Reconciler(
            "managed ResourceQuotas",
            self._reconcile,
            self.context,
            self.interval_s,
            self.on_refused,
        )

    def on_change(self, seen: Sighting[QuotaObject]) -> None:
        """A quota of any kind was created, changed or deleted."""
        key = seen.item.quota.key
        owner = owner_key(key) or key
        if owner.kind is QuotaKind.NAMESPACED:
            self.reconciler.enqueue([owner])

    def on_delete(self, seen: Sighting[QuotaObject]) -> None:
        identity, key = seen.identity, seen.item.quota.key
        if key.kind is QuotaKind.NATIVE:
            self._pending.forget(identity.key)
            if owner_key(key) is not None and identity.uid not in self._deleted_uids:
                self._count_deletion(identity.key)
            self._deleted_uids.discard(identity.uid)
        elif key.kind is QuotaKind.NAMESPACED:
            managed = managed_key(key)
            self._deletions.pop(Key(managed.namespace, managed.name), None)
        self.on_change(seen)

    def _count_deletion(self, key: Key) -> None:
        """Another program has deleted a managed ResourceQuota: create it again, ever later."""
        now, before = self.context.clock.monotonic(), self._deletions.get(key)
        pause = 0.0
        if before is not None and now < before.allowed_at + CALM_SECONDS:
            pause = min(max(2 * before.pause, RECREATE_SECONDS), RECREATE_SECONDS_MAX)
            LOG.warning(
                "a managed ResourceQuota was deleted again; its limits are not in force",
                resourcequota=key,
                created_again_in_s=pause,
            )
        self._deletions[key] = _Deletions(now + pause, pause)

    def _postponed(self, key: QuotaKey) -> Postponed | None:
        managed = managed_key(key)
        deletions = self._deletions.get(Key(managed.namespace, managed.name))
        rest = 0.0
        if deletions is not None:
            rest = deletions.allowed_at - self.context.clock.monotonic()
        return Postponed(rest) if rest > 0 else None

    async def _reconcile(self, key: QuotaKey) -> bool | Postponed:
        owner, managed = self.find(key), self.find(managed_key(key))
        action = action_for(
            None if owner is None else owner.item,
            None if managed is None else managed.item,
            is_terminating=self.is_terminating(key.namespace),
        )
        if action is Action.NONE:
            return False
        postponed = self._postponed(key) if action is Action.CREATE else None
        if postponed is not None:
            return postponed
        if managed is not None and action in {Action.REPLACE, Action.DELETE}:
            await self._delete(managed)
        if owner is not None and action in {Action.CREATE, Action.REPLACE}:
            await self._create(owner.item.quota)
        if owner is not None and managed is not None and action is Action.UPDATE:
            return await self._update(managed, owner.item.quota)
        return True

    async def _create(self, quota: Quota) -> None:
        key = managed_key(quota.key)
        body: Json = {
            "apiVersion": _RESOURCE.api_version,
            "kind": _RESOURCE.kind,
            "metadata": owned_metadata(key.name, quota),
            "spec": managed_spec(quota),
        }
        await self.context.writer.create(_RESOURCE, body, namespace=key.namespace)

    async def _update(self, managed: Sighting[QuotaObject], quota: Quota) -> bool:
        item, identity = managed.item, managed.identity
        if self._pending.find(identity) == quota:
            return False
        operations = [put("/spec/hard", texts(delegated(quota.hard)))]
        is_ours = is_owned(item.labels, item.owner_uid, quota)
        if not is_ours:
            operations += ownership_operations(item.labels, quota)
        patch = fenced_patch(identity, operations, is_exact=not is_ours)
        await self.context.writer.patch(_RESOURCE, identity.key, patch)
        self._pending.add(identity, quota)
        return True

    async def _delete(self, managed: Sighting[QuotaObject]) -> None:
        self._deleted_uids.add(managed.identity.uid)
        preconditions = Preconditions(uid=managed.identity.uid)
        await self.context.writer.delete(
            _RESOURCE, managed.identity.key, preconditions=preconditions
        )


def managed_spec(quota: Quota) -> dict[str, Json]:
    """The limits that are left to Kubernetes, with the scopes of the quota."""
    spec: dict[str, Json] = {"hard": texts(delegated(quota.hard))}
    listed = [rule.scope for rule in quota.scopes if rule.operator == EXISTS]
    if listed:
        spec["scopes"] = list(dict.fromkeys(listed))
    expressions: list[Json] = [
        {"scopeName": rule.scope, "operator": rule.operator, "values": rule.values}
        for rule in quota.scopes
        if rule.operator != EXISTS
    ]
    if expressions:
        spec["scopeSelector"] = {"matchExpressions": expressions}
    return spec
