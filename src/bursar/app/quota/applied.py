"""Applied quotas: what a namespace is shown of each cluster-wide quota that covers it.

Whoever may look into one namespace only can still see what limits it. The copy has the
limits, what all namespaces use together, and the namespace's own part; what each of the
others uses is not its business. It is written like a status, but less often: there is
one for every namespace, and each pod anywhere changes all of them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final, NamedTuple

from bursar.app.cluster.informer.store import Identity, Sighting
from bursar.app.cluster.ports import (
    Clock,
    Json,
    Key,
    Patch,
    PatchKind,
    Preconditions,
    Writer,
)
from bursar.app.quota.kinds import APPLIED_CLUSTER_QUOTAS
from bursar.app.quota.status_document import (
    JsonObject,
    conditions_in,
    fenced,
    is_kept,
    keeping,
    kept_metadata,
    wanted_conditions,
    wanted_status,
)
from bursar.app.quota.upkeep import Upkeep
from bursar.core.quota.coverage import Coverage, CoveredQuota
from bursar.core.quota.quota import QuotaKey, QuotaKind
from bursar.core.quota.statement import statement_of

APPLIED_SECONDS: Final = 5.0
"""Each is written no more often than this; after a calm, at once."""
NOT_SHOWN: Final[JsonObject] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedQuota:
    """An applied quota as its object holds it."""

    labels: Mapping[str, str] = field(default_factory=dict)
    owner_uid: str = ""
    """Of the object that controls this one; empty if none does."""
    is_deleting: bool = False
    spec: Json = None
    status: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Original:
    """A cluster-wide quota to be copied."""

    uid: str
    spec: Json
    """To the letter."""


class _Written(NamedTuple):
    """A copy we wrote, and which state of the object it was written over."""

    over: str
    spec: Json
    status: JsonObject


@dataclass(eq=False, kw_only=True)
class AppliedWriter:
    """Keeps a copy of each cluster-wide quota in each of its namespaces. `run` it once."""

    writer: Writer
    clock: Clock
    random: Random
    coverage: Coverage
    find: Callable[[Key], Sighting[AppliedQuota] | None]
    find_original: Callable[[str], Original | None]
    """By name; the latest that was seen, None if it is gone."""
    is_ending: Callable[[str], bool]
    """Whether a namespace is being deleted. One that is not known is not."""
    may_write: Callable[[], bool]
    """Whether we lead, and the books are complete."""
    interval_s: float = APPLIED_SECONDS

    def __post_init__(self) -> None:
        self._written: dict[Key, _Written] = {}
        self._places: dict[str, set[str]] = {}
        self.upkeep = Upkeep(
            self._look,
            self.clock,
            random=self.random,
            may_write=self.may_write,
            interval_s=self.interval_s,
        )

    def mark(self, keys: Iterable[QuotaKey]) -> None:
        """These quotas, or the books about them, have changed, or they are gone."""
        for key in keys:
            if key.kind is QuotaKind.CLUSTER:
                self.upkeep.mark(self._copies(key))

    def observe(self, seen: Sighting[AppliedQuota]) -> None:
        """A copy is new, or somebody has changed it."""
        key = seen.identity.key
        self._places.setdefault(key.name, set()).add(key.namespace)
        self.upkeep.mark([key])

    def lose(self, seen: Sighting[AppliedQuota]) -> None:
        """A copy is gone."""
        key = seen.identity.key
        places = self._places.get(key.name, set())
        places.discard(key.namespace)
        if not places:
            self._places.pop(key.name, None)
        self._written.pop(key, None)
        self.upkeep.mark([key])

    async def run(self) -> None:
        """Write until cancelled."""
        await self.upkeep.run()

    def _copies(self, key: QuotaKey) -> Iterator[Key]:
        """Those there are, and those there should be."""
        covered = self.coverage.quota(key)
        wanted = set() if covered is None else covered.namespaces
        for namespace in sorted(wanted | self._places.get(key.name, set())):
            yield Key(namespace, key.name)

    async def _look(self, key: Key) -> bool:
        seen = self.find(key)
        if self.is_ending(key.namespace) or (seen is not None and seen.item.is_deleting):
            return False
        original = self.find_original(key.name)
        if original is None:
            return await self._delete(seen)
        covered = self.coverage.quota(QuotaKey(QuotaKind.CLUSTER, "", key.name))
        if covered is None or covered.quota.uid != original.uid:
            # The books are behind. We are called again when they have caught up.
            return False
        if key.namespace not in covered.namespaces:
            return await self._delete(seen)
        if seen is None:
            await self._create(key, covered, original)
            return True
        return await self._amend(seen, covered, original)

    def _status(self, covered: CoveredQuota, namespace: str, shown: JsonObject) -> JsonObject:
        statement = statement_of(covered, namespaces=(namespace,))
        conditions = wanted_conditions(statement, before=conditions_in(shown), now=self.clock.now())
        return wanted_status(QuotaKind.CLUSTER, statement, conditions)

    async def _create(self, key: Key, covered: CoveredQuota, original: Original) -> None:
        body: Json = {
            "apiVersion": APPLIED_CLUSTER_QUOTAS.api_version,
            "kind": APPLIED_CLUSTER_QUOTAS.kind,
            "metadata": kept_metadata(key.name, covered.quota),
            "spec": original.spec,
            "status": self._status(covered, key.namespace, NOT_SHOWN),
        }
        await self.writer.create(APPLIED_CLUSTER_QUOTAS, body, namespace=key.namespace)

    async def _amend(
        self, seen: Sighting[AppliedQuota], covered: CoveredQuota, original: Original
    ) -> bool:
        item, identity = seen.item, seen.identity
        shown = self._shown(seen)
        status = self._status(covered, identity.key.namespace, shown.status)
        wanted = _Written(identity.resource_version, original.spec, status)
        operations: list[Json] = []
        if shown.spec != wanted.spec:
            operations.append({"op": "add", "path": "/spec", "value": wanted.spec})
        if shown.status != status:
            operations.append({"op": "add", "path": "/status", "value": status})
        if not is_kept(item.labels, item.owner_uid, covered.quota):
            operations += keeping(identity, item.labels, covered.quota)
        if not operations:
            return False
        await self._patch(identity, operations)
        self._written[identity.key] = wanted
        return True

    def _shown(self, seen: Sighting[AppliedQuota]) -> _Written:
        """What is stored now, as far as we know: what we wrote, until something newer is seen."""
        version = seen.identity.resource_version
        written = self._written.get(seen.identity.key)
        if written is not None and written.over == version:
            return written
        return _Written(version, seen.item.spec, seen.item.status)

    async def _patch(self, identity: Identity, operations: list[Json]) -> None:
        # No subresource: of this kind the status is a part of the object like any other.
        patch = Patch(kind=PatchKind.JSON, body=fenced(identity, operations))
        await self.writer.patch(APPLIED_CLUSTER_QUOTAS, identity.key, patch)

    async def _delete(self, seen: Sighting[AppliedQuota] | None) -> bool:
        if seen is None:
            return False
        preconditions = Preconditions(uid=seen.identity.uid)
        await self.writer.delete(
            APPLIED_CLUSTER_QUOTAS, seen.identity.key, preconditions=preconditions
        )
        return True
