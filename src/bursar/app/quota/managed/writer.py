"""Managed quotas: limits that a scheduling gate cannot enforce are left to Kubernetes.

A limit on services or secrets can only be enforced when they are created, which Kubernetes
does for ResourceQuotas. For each quota of a namespace that has such limits, the controller
keeps a ResourceQuota with these limits and the same scopes, under the name that AAQ gives it.

Kubernetes has no such quota over several namespaces, but OpenShift has: the ClusterResourceQuota.
Where the API server serves it, the controller keeps one for each cluster-wide quota in the same
way, with the same selector of namespaces.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from bursar.app.cluster.informer.store import Sighting
from bursar.app.cluster.patches import fenced_patch, put
from bursar.app.cluster.ports import Json, Key, Preconditions
from bursar.app.cluster.reconcile import PendingWrites, Postponed, ReconcileContext, Reconciler
from bursar.app.log import Log
from bursar.app.quota.kinds import APPLICATION_QUOTAS, LABEL, LABEL_VALUE, QUOTAS
from bursar.app.quota.managed.names import managed_key, owner_key
from bursar.app.quota.status import FindQuota
from bursar.app.quota.status_document import is_owned, owned_metadata, ownership_operations, texts
from bursar.core.counting.kind_state import KindState
from bursar.core.quota.quota import Quota, QuotaKey, QuotaKind, QuotaObject
from bursar.core.quota.scopes import EXISTS
from bursar.core.quota.views.statement import counts_alike, delegated

MANAGED_SECONDS: Final = 0.5
"""Shortest time between two writes of one managed quota."""
RECREATE_SECONDS: Final = 1.0
RECREATE_SECONDS_MAX: Final = 30.0
"""Back-off while another program deletes a managed quota again and again: it doubles from
the first to the second. Until it is created again, its limits are not in force."""
CALM_SECONDS: Final = 60.0
"""A managed quota that exists for this long ends the back-off."""
OWN_COUNT: Final = f"count/{APPLICATION_QUOTAS.plural}.{APPLICATION_QUOTAS.group}"
"""The name of a limit on quotas of a namespace. The quota that has it is counted as well."""
OWN_COUNT_SECONDS: Final = 1.0
"""Time from a new quota with that limit to its managed quota. Kubernetes counts existing objects
when it sees the managed quota, and then not for minutes. If it saw the managed quota before the new
quota, it would count one too few."""

RECOUNT_SECONDS: Final = 5.0
RECOUNT_SECONDS_MAX: Final = 300.0
"""Back-off between two requests to count again: it doubles from the first to the second."""

LOG: Final = Log("quota")


class Action(Enum):
    """What to do about a managed quota."""

    NONE = "none"
    CREATE = "create"
    UPDATE = "update"
    """The limits, the label or the owner are wrong. For a ClusterResourceQuota: anything is."""
    REPLACE = "replace"
    """The scopes are wrong, and the scopes of a ResourceQuota are immutable."""
    DELETE = "delete"


def action_for(
    owner: QuotaObject | None, managed: QuotaObject | None, *, is_terminating: bool = False
) -> Action:
    """What to do, given the quota, its managed quota and the namespace's state."""
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
    is_alike = counts_alike(managed.quota, owner.quota)
    if not is_alike and managed.quota.key.kind is QuotaKind.NATIVE:
        return Action.REPLACE
    is_right = (
        is_alike
        and managed.quota.hard == delegated(owner.quota.hard)
        and is_owned(managed.labels, managed.owner_uid, owner.quota)
    )
    return Action.NONE if is_right else Action.UPDATE


def _is_ours(managed: QuotaObject) -> bool:
    """Whether the object has our label or an owner. One without both was made by a user."""
    return managed.labels.get(LABEL) == LABEL_VALUE or bool(managed.owner_uid)


def is_uncounted(owner: QuotaObject, managed: QuotaObject) -> bool:
    """Whether a quota limits the number of quotas, and Kubernetes does not count the quota itself.

    For some minutes, Kubernetes does not count quotas if it learns of their kind only after the
    managed quota was created: in the first half minute after the installation of the custom
    resource definitions.
    """
    if owner.quota.key.kind is not QuotaKind.NAMESPACED:
        return False
    used = managed.reported_used.get(OWN_COUNT)
    return OWN_COUNT in delegated(owner.quota.hard) and (used is None or used.is_zero)


class _Recount(NamedTuple):
    """When Kubernetes is asked to count again, and how long it had since the last time."""

    due_at: float
    pause: float


class _Deletions(NamedTuple):
    allowed_at: float
    """When it may be created again, on the monotonic clock."""
    pause: float


@dataclass(eq=False, kw_only=True)
class ManagedWriter:
    """Creates, updates and deletes managed quotas while its `reconciler` runs."""

    context: ReconcileContext
    find: FindQuota
    is_terminating: Callable[[str], bool]
    """Whether a namespace is being deleted; false for an unknown namespace."""
    on_refused: Callable[[QuotaKey, str], None] = lambda _key, _words: None
    """Called with a quota and the API server's words when it refuses a write of the managed quota,
    and with an empty text when a write succeeds again."""
    cluster_managed: Callable[[], KindState] = lambda: KindState.ABSENT
    """Whether the ClusterResourceQuotas of the cluster are known."""
    interval_s: float = MANAGED_SECONDS

    def __post_init__(self) -> None:
        self._pending = PendingWrites[Quota]()
        """By managed quota: the quota that it was last written for."""
        self._deletions: dict[Key, _Deletions] = {}
        """By managed quota: how often it was deleted by others."""
        self._seen: dict[QuotaKey, float] = {}
        """By quota that limits the number of quotas and has no managed quota: monotonic time since
        when."""
        self._recounts: dict[QuotaKey, _Recount] = {}
        """By quota that limits the number of quotas, and that Kubernetes does not count."""
        self._deleted_uids: set[str] = set()
        """Managed quotas that were deleted here."""
        self.reconciler = Reconciler(
            "managed quotas",
            self._reconcile,
            self.context,
            self.interval_s,
            self.on_refused,
        )

    def on_change(self, seen: Sighting[QuotaObject]) -> None:
        """A quota of any kind was created, changed or deleted."""
        key = seen.item.quota.key
        owner = owner_key(key) or key
        self.enqueue([owner])

    def enqueue(self, keys: Iterable[QuotaKey]) -> None:
        """Reconcile the managed quotas of these quotas."""
        for key in keys:
            if key in self._recounts:
                # The key waits for minutes, for the next request to count again. A change of the
                # quota must not wait as long.
                self.reconciler.expedite([key])
            elif key.kind.holds_pods:
                self.reconciler.enqueue([key])

    def on_delete(self, seen: Sighting[QuotaObject]) -> None:
        identity, key = seen.identity, seen.item.quota.key
        if not key.kind.holds_pods:
            self._pending.forget(identity.key)
            owner = owner_key(key)
            # A managed quota is deleted after its quota, and is not to be created again then.
            has_owner = owner is not None and self.find(owner) is not None
            if has_owner and identity.uid not in self._deleted_uids:
                self._count_deletion(identity.key)
            self._deleted_uids.discard(identity.uid)
        else:
            managed = managed_key(key)
            self._deletions.pop(Key(managed.namespace, managed.name), None)
            self._seen.pop(key, None)
            self._recounts.pop(key, None)
        self.on_change(seen)

    def _count_deletion(self, key: Key) -> None:
        """Another program has deleted a managed quota: create it again, ever later."""
        now, before = self.context.clock.monotonic(), self._deletions.get(key)
        pause = 0.0
        if before is not None and now < before.allowed_at + CALM_SECONDS:
            pause = min(max(2 * before.pause, RECREATE_SECONDS), RECREATE_SECONDS_MAX)
            LOG.warning(
                "a managed quota was deleted again; its limits are not in force",
                managed=key,
                created_again_in_s=pause,
            )
        self._deletions[key] = _Deletions(now + pause, pause)

    def _postponed(self, owner: QuotaObject) -> Postponed | None:
        key, now = owner.quota.key, self.context.clock.monotonic()
        managed = managed_key(key)
        deletions = self._deletions.get(Key(managed.namespace, managed.name))
        allowed_at = now
        if deletions is not None:
            allowed_at = deletions.allowed_at
        elif OWN_COUNT in owner.quota.hard:
            allowed_at = self._seen.setdefault(key, now) + OWN_COUNT_SECONDS
        return Postponed(allowed_at - now) if allowed_at > now else None

    async def _reconcile(self, key: QuotaKey) -> bool | Postponed:
        if key.kind is QuotaKind.CLUSTER and self.cluster_managed() is not KindState.SYNCED:
            # The key is queued again when the ClusterResourceQuotas are known.
            return False
        place = managed_key(key)
        owner, managed = self.find(key), self.find(place)
        if managed is None:
            # It may have been deleted while it was written.
            self._pending.forget(Key(place.namespace, place.name))
        action = action_for(
            None if owner is None else owner.item,
            None if managed is None else managed.item,
            is_terminating=self.is_terminating(key.namespace),
        )
        if action is Action.NONE:
            if owner is None or managed is None:
                return False
            return await self._recount(owner.item, managed)
        if owner is not None and action is Action.CREATE:
            postponed = self._postponed(owner.item)
            if postponed is not None:
                return postponed
        if managed is not None and action in {Action.REPLACE, Action.DELETE}:
            await self._delete(managed)
        if owner is not None and action in {Action.CREATE, Action.REPLACE}:
            await self._create(owner.item)
            self._seen.pop(key, None)
        if owner is not None and managed is not None and action is Action.UPDATE:
            return await self._update(managed, owner.item)
        return True

    async def _recount(
        self, owner: QuotaObject, managed: Sighting[QuotaObject]
    ) -> bool | Postponed:
        """Have Kubernetes count anew if it counts no quota where there is one.

        It does so when the limits change. So the limit is taken away, and set again when the watch
        shows that it is gone.
        """
        key, now = owner.quota.key, self.context.clock.monotonic()
        if not is_uncounted(owner, managed.item):
            self._recounts.pop(key, None)
            return False
        due = self._recounts.setdefault(key, _Recount(now + RECOUNT_SECONDS, RECOUNT_SECONDS))
        if now < due.due_at:
            return Postponed(due.due_at - now)
        pause = min(2 * due.pause, RECOUNT_SECONDS_MAX)
        self._recounts[key] = _Recount(now + pause, pause)
        others = {name: text for name, text in _hard(owner.quota).items() if name != OWN_COUNT}
        patch = fenced_patch(managed.identity, [put("/spec/hard", others)], is_exact=True)
        await self.context.writer.patch(
            QUOTAS[managed.item.quota.key.kind], managed.identity.key, patch
        )
        return True

    async def _create(self, owner: QuotaObject) -> None:
        key = managed_key(owner.quota.key)
        resource = QUOTAS[key.kind]
        body: Json = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": owned_metadata(key.name, owner.quota),
            "spec": managed_spec(owner),
        }
        await self.context.writer.create(resource, body, namespace=key.namespace)

    async def _update(self, managed: Sighting[QuotaObject], owner: QuotaObject) -> bool:
        item, identity, quota = managed.item, managed.identity, owner.quota
        if self._pending.find(identity) == quota:
            return False
        spec, resource = managed_spec(owner), QUOTAS[item.quota.key.kind]
        if quota.key.kind is QuotaKind.CLUSTER:
            operations = [put("/spec", spec)]
        else:
            operations = [put("/spec/hard", spec["hard"])]
        is_ours = is_owned(item.labels, item.owner_uid, quota)
        if not is_ours:
            operations += ownership_operations(item.labels, quota)
        patch = fenced_patch(identity, operations, is_exact=not is_ours)
        await self.context.writer.patch(resource, identity.key, patch)
        self._pending.add(identity, quota)
        return True

    async def _delete(self, managed: Sighting[QuotaObject]) -> None:
        self._deleted_uids.add(managed.identity.uid)
        preconditions = Preconditions(uid=managed.identity.uid)
        resource = QUOTAS[managed.item.quota.key.kind]
        await self.context.writer.delete(
            resource, managed.identity.key, preconditions=preconditions
        )


def managed_spec(owner: QuotaObject) -> dict[str, Json]:
    """The spec of the managed quota of a quota."""
    spec = _limits(owner.quota)
    if owner.quota.key.kind is not QuotaKind.CLUSTER:
        return spec
    original = owner.spec if isinstance(owner.spec, Mapping) else {}
    # The selector as it is stored: it was read, so OpenShift selects the same namespaces by it.
    return {"quota": spec, "selector": original.get("selector")}


def _limits(quota: Quota) -> dict[str, Json]:
    """The limits that are left to Kubernetes, with the scopes of the quota."""
    spec: dict[str, Json] = {"hard": _hard(quota)}
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


def _hard(quota: Quota) -> dict[str, Json]:
    return dict(texts(delegated(quota.hard)))
