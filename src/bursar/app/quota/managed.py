"""Managed ResourceQuotas: what pods cannot be made to wait for is left to Kubernetes.

A limit on services or secrets can only be kept when they are created, and Kubernetes does
that itself. For each quota of a namespace that has such limits, a ResourceQuota is kept
beside it with those and its scopes, under AAQ's name for it. Nothing is written to it
unless it is wrong.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Final

from bursar.app.cluster.informer.store import Sighting
from bursar.app.cluster.ports import (
    Clock,
    Json,
    Patch,
    PatchKind,
    Preconditions,
    Writer,
)
from bursar.app.quota.kinds import QUOTAS
from bursar.app.quota.status import FindQuota, keeper_key, managed_key
from bursar.app.quota.status_document import (
    LABEL,
    LABEL_VALUE,
    fenced,
    is_kept,
    keeping,
    kept_metadata,
    texts,
)
from bursar.app.quota.upkeep import Upkeep
from bursar.core.quota.quota import Quota, QuotaKey, QuotaKind
from bursar.core.quota.reported import QuotaObject
from bursar.core.quota.scopes import EXISTS
from bursar.core.quota.statement import delegated

MANAGED_SECONDS: Final = 0.5
"""Each is written no more often than this."""

_RESOURCE: Final = QUOTAS[QuotaKind.NATIVE]


class Measure(Enum):
    """What has to be done about a managed ResourceQuota."""

    NONE = "none"
    CREATE = "create"
    AMEND = "amend"
    """Its limits, its label or its owner are not right."""
    REPLACE = "replace"
    """Its scopes are not right, and those of a ResourceQuota cannot be changed."""
    DELETE = "delete"


def measure(
    keeper: QuotaObject | None, managed: QuotaObject | None, *, is_ending: bool = False
) -> Measure:
    """What to do, given the quota, its managed ResourceQuota, and whether the namespace ends."""
    if is_ending or (managed is not None and managed.is_deleting):
        return Measure.NONE
    if keeper is None or not delegated(keeper.quota.hard):
        return Measure.DELETE if managed is not None and _is_ours(managed) else Measure.NONE
    if keeper.is_deleting:
        return Measure.NONE
    if managed is None:
        return Measure.CREATE
    if set(managed.quota.scopes) != set(keeper.quota.scopes):
        return Measure.REPLACE
    is_right = managed.quota.hard == delegated(keeper.quota.hard) and is_kept(
        managed.labels, managed.owner_uid, keeper.quota
    )
    return Measure.NONE if is_right else Measure.AMEND


def _is_ours(managed: QuotaObject) -> bool:
    """A person may have made one of such a name, without a label and an owner; it is left."""
    return managed.labels.get(LABEL) == LABEL_VALUE or bool(managed.owner_uid)


@dataclass(eq=False, kw_only=True)
class ManagedWriter:
    """Keeps managed ResourceQuotas right. `run` it once."""

    writer: Writer
    clock: Clock
    random: Random
    find: FindQuota
    is_ending: Callable[[str], bool]
    """Whether a namespace is being deleted. One that is not known is not."""
    may_write: Callable[[], bool]
    """Whether we lead, and all quotas have been seen."""
    interval_s: float = MANAGED_SECONDS

    def __post_init__(self) -> None:
        self.upkeep = Upkeep(
            self._look,
            self.clock,
            random=self.random,
            may_write=self.may_write,
            interval_s=self.interval_s,
        )

    def observe(self, seen: Sighting[QuotaObject]) -> None:
        """A quota of any kind is new, has changed or is gone."""
        key = seen.item.quota.key
        self.mark([keeper_key(key) or key])

    def mark(self, keys: Iterable[QuotaKey]) -> None:
        self.upkeep.mark(key for key in keys if key.kind is QuotaKind.NAMESPACED)

    async def run(self) -> None:
        """Set right until cancelled."""
        await self.upkeep.run()

    async def _look(self, key: QuotaKey) -> bool:
        keeper, managed = self.find(key), self.find(managed_key(key))
        step = measure(
            None if keeper is None else keeper.item,
            None if managed is None else managed.item,
            is_ending=self.is_ending(key.namespace),
        )
        if step is Measure.NONE:
            return False
        if managed is not None and step in {Measure.REPLACE, Measure.DELETE}:
            await self._delete(managed)
        if keeper is not None and step in {Measure.CREATE, Measure.REPLACE}:
            await self._create(keeper.item.quota)
        if keeper is not None and managed is not None and step is Measure.AMEND:
            await self._amend(managed, keeper.item.quota)
        return True

    async def _create(self, quota: Quota) -> None:
        key = managed_key(quota.key)
        body: Json = {
            "apiVersion": _RESOURCE.api_version,
            "kind": _RESOURCE.kind,
            "metadata": kept_metadata(key.name, quota),
            "spec": managed_spec(quota),
        }
        await self.writer.create(_RESOURCE, body, namespace=key.namespace)

    async def _amend(self, managed: Sighting[QuotaObject], quota: Quota) -> None:
        item, identity = managed.item, managed.identity
        operations: list[Json] = [
            {"op": "add", "path": "/spec/hard", "value": texts(delegated(quota.hard))}
        ]
        if not is_kept(item.labels, item.owner_uid, quota):
            operations += keeping(identity, item.labels, quota)
        patch = Patch(kind=PatchKind.JSON, body=fenced(identity, operations))
        await self.writer.patch(_RESOURCE, identity.key, patch)

    async def _delete(self, managed: Sighting[QuotaObject]) -> None:
        identity = managed.identity
        preconditions = Preconditions(uid=identity.uid)
        await self.writer.delete(_RESOURCE, identity.key, preconditions=preconditions)


def managed_spec(quota: Quota) -> dict[str, Json]:
    """The limits that are left to Kubernetes, for the same pods."""
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
