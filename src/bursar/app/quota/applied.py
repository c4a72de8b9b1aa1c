"""Applied quotas: the copy of a cluster-wide quota in each namespace that it covers.

A user who may read one namespace only can see in the copy what limits it: the limits, the
usage of all namespaces together, and the usage of that namespace. The usage of each other
namespace is not shown, except on request (`AppliedUsage.ALL`), as AAQ does. Copies are written
less often than statuses: there is one for each namespace, and a pod in any namespace changes all of
them. A copy that another program has deleted or changed is repaired at once.
"""

from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, cast

from bursar.app.cluster.informer.store import Sighting, is_older
from bursar.app.cluster.patches import fenced_patch, put
from bursar.app.cluster.ports import Json, Key, Preconditions
from bursar.app.cluster.reconcile import PendingWrites, ReconcileContext, Reconciler
from bursar.app.quota.kinds import APPLIED_CLUSTER_QUOTAS
from bursar.app.quota.managed.applied_usage import AppliedUsage
from bursar.app.quota.managed.names import managed_key
from bursar.app.quota.status import FindQuota
from bursar.app.quota.status_document import (
    JsonObject,
    QuotaProblems,
    conditions_in,
    is_owned,
    owned_metadata,
    ownership_operations,
    wanted_conditions,
    wanted_status,
)
from bursar.core.quota.coverage import Coverage, CoveredQuota
from bursar.core.quota.quota import AppliedQuota, QuotaKey, QuotaKind, QuotaObject
from bursar.core.quota.views.statement import statement_of, used_in
from bursar.wire.cluster.object_identity import find_identity

APPLIED_SECONDS: Final = 5.0
"""Shortest time between two writes of one copy."""
NO_STATUS: Final[JsonObject] = {}


class _Content(NamedTuple):
    spec: Json
    status: JsonObject


@dataclass(eq=False, kw_only=True)
class AppliedWriter:
    """Writes a copy of each cluster-wide quota to its namespaces while its `reconciler` runs."""

    context: ReconcileContext
    coverage: Coverage
    find: Callable[[Key], Sighting[AppliedQuota] | None]
    find_quota: FindQuota
    is_terminating: Callable[[str], bool]
    """Whether a namespace is being deleted; false for an unknown namespace."""
    problems: Callable[[CoveredQuota, QuotaObject, str], QuotaProblems]
    """What is wrong with a cluster-wide quota for one of its namespaces."""
    on_refused: Callable[[Key, str], None] = lambda _key, _words: None
    """Called with a copy and the API server's words when it refuses a write of the copy, and with
    an empty text when a write succeeds again."""
    shown: AppliedUsage = AppliedUsage.OWN
    interval_s: float = APPLIED_SECONDS

    def __post_init__(self) -> None:
        self._pending = PendingWrites[_Content]()
        self._own_versions: dict[Key, str] = {}
        """By copy: the resourceVersion after this process wrote it; empty while it writes."""
        self._namespaces: dict[str, set[str]] = {}
        """By the name of a quota: the namespaces that have a copy."""
        self.reconciler = Reconciler(
            "applied quotas", self._reconcile, self.context, self.interval_s, self.on_refused
        )

    def enqueue(self, keys: Iterable[QuotaKey]) -> None:
        """These quotas, or the books about them, have changed, or the quotas were deleted."""
        for key in keys:
            if key.kind is not QuotaKind.CLUSTER:
                continue
            original = self.find_quota(key)
            for copy in self._copies(key):
                seen = self.find(copy)
                if seen is None or original is None or seen.item.spec == original.item.spec:
                    self.reconciler.enqueue([copy])
                else:
                    # Limits and scopes change rarely, and users wait for them.
                    self.reconciler.expedite([copy])

    def on_change(self, seen: Sighting[AppliedQuota]) -> None:
        """A copy was created or changed."""
        key = seen.identity.key
        self._namespaces.setdefault(key.name, set()).add(key.namespace)
        if self._own_versions.get(key) in {"", seen.identity.resource_version}:
            self.reconciler.enqueue([key])
        else:
            self.reconciler.expedite([key])

    def on_delete(self, seen: Sighting[AppliedQuota]) -> None:
        """A copy was deleted."""
        key = seen.identity.key
        namespaces = self._namespaces.get(key.name, set())
        namespaces.discard(key.namespace)
        if not namespaces:
            self._namespaces.pop(key.name, None)
        self._forget(key)
        self.reconciler.expedite([key])

    def _forget(self, key: Key) -> None:
        self._pending.forget(key)
        if self._own_versions.get(key):
            del self._own_versions[key]

    def _copies(self, key: QuotaKey) -> Iterator[Key]:
        """The copies that exist and the copies that should exist."""
        covered = self.coverage.quota(key)
        wanted = set() if covered is None else covered.namespaces
        for namespace in sorted(wanted | self._namespaces.get(key.name, set())):
            yield Key(namespace, key.name)

    async def _reconcile(self, key: Key) -> bool:
        seen = self.find(key)
        if seen is None:
            self._forget(key)  # It may have been deleted while it was written.
        if self.is_terminating(key.namespace) or (seen is not None and seen.item.is_deleting):
            return False
        quota_key = QuotaKey(QuotaKind.CLUSTER, "", key.name)
        original, covered = self.find_quota(quota_key), self.coverage.quota(quota_key)
        if original is None:
            return await self._delete(seen)
        if covered is None or covered.quota.uid != original.identity.uid:
            # The books are behind. The key is queued again when they catch up.
            return False
        if key.namespace not in covered.namespaces:
            return await self._delete(seen)
        if seen is None:
            await self._create(key, covered, original.item)
            return True
        return await self._update(seen, covered, original.item)

    def _status(
        self, covered: CoveredQuota, original: QuotaObject, namespace: str, stored: JsonObject
    ) -> JsonObject:
        namespaces = (namespace,) if self.shown is AppliedUsage.OWN else None
        quota = covered.quota
        managed = self.find_quota(managed_key(quota.key))
        usage = used_in(None if managed is None else managed.item, quota)
        statement = statement_of(covered, usage, namespaces=namespaces)
        conditions = wanted_conditions(
            statement,
            self.problems(covered, original, namespace),
            before=conditions_in(stored),
            now=self.context.clock.now(),
        )
        return wanted_status(QuotaKind.CLUSTER, statement, conditions)

    async def _create(self, key: Key, covered: CoveredQuota, original: QuotaObject) -> None:
        body: Json = {
            "apiVersion": APPLIED_CLUSTER_QUOTAS.api_version,
            "kind": APPLIED_CLUSTER_QUOTAS.kind,
            "metadata": owned_metadata(key.name, covered.quota),
            "spec": cast("Json", original.spec),
            "status": self._status(covered, original, key.namespace, NO_STATUS),
        }
        writer = self.context.writer
        await self._write(key, writer.create(APPLIED_CLUSTER_QUOTAS, body, namespace=key.namespace))

    async def _update(
        self, seen: Sighting[AppliedQuota], covered: CoveredQuota, original: QuotaObject
    ) -> bool:
        item, identity = seen.item, seen.identity
        stored = self._pending.find(identity) or _Content(
            cast("Json", item.spec), cast("JsonObject", item.status)
        )
        status = self._status(covered, original, identity.key.namespace, stored.status)
        wanted = _Content(cast("Json", original.spec), status)
        operations: list[Json] = []
        if stored.spec != wanted.spec:
            operations.append(put("/spec", wanted.spec))
        if stored.status != status:
            operations.append(put("/status", status))
        is_ours = is_owned(item.labels, item.owner_uid, covered.quota)
        if not is_ours:
            operations += ownership_operations(item.labels, covered.quota)
        if not operations:
            return False
        # Of this kind the status is no subresource.
        patch = fenced_patch(identity, operations, is_exact=not is_ours)
        writer = self.context.writer
        await self._write(identity.key, writer.patch(APPLIED_CLUSTER_QUOTAS, identity.key, patch))
        self._pending.add(identity, wanted)
        return True

    async def _write(self, key: Key, request: Coroutine[object, object, bytes]) -> None:
        """Remember the resourceVersion of the answer, to tell other programs' changes from ours.

        The watch may show the write before its answer arrives. Changes in between are judged here.
        """
        self._own_versions[key] = ""
        stored = None
        try:
            stored = find_identity(await request)
        finally:
            del self._own_versions[key]
        if stored is None:
            return
        self._own_versions[key] = stored.resource_version
        seen = self.find(key)
        if seen is not None and is_older(stored.resource_version, seen.identity.resource_version):
            self.reconciler.expedite([key])

    async def _delete(self, seen: Sighting[AppliedQuota] | None) -> bool:
        if seen is None:
            return False
        await self.context.writer.delete(
            APPLIED_CLUSTER_QUOTAS,
            seen.identity.key,
            preconditions=Preconditions(uid=seen.identity.uid),
        )
        return True
