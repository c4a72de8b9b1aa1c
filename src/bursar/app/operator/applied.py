"""Apply the objects of an installation, and delete those that it no longer has.

Objects are written by server-side apply: the operator owns the fields of its manifests and no
others, so that labels of users, the `caBundle`s and the annotations of the controller stay.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final

from bursar.app.cluster.informer.informer import Informer
from bursar.app.cluster.informer.store import Sighting
from bursar.app.cluster.kinds import NAMESPACES
from bursar.app.cluster.observe import Watched, observe
from bursar.app.cluster.ports import (
    Clock,
    ClusterError,
    Json,
    NotFoundError,
    Patch,
    PatchKind,
    Preconditions,
    Query,
    Resource,
    Writer,
)
from bursar.app.install.documents import Document
from bursar.app.log import Log
from bursar.app.operator.drift import has_all
from bursar.app.operator.kinds import DELETED, OWNED, RECENT, Target, target_of
from bursar.app.operator.rendering import MANAGED_BY, OPERATOR_NAME
from bursar.wire.cluster.object_identity import find_identity
from bursar.wire.structs.fields import printable

LOG: Final = Log("operator")
SELECTOR: Final = f"{MANAGED_BY}={OPERATOR_NAME}"
WORDS_MAX: Final = 300

Stored = Mapping[str, Json]


class Write:
    """What was done to an object, for events and metrics."""

    CREATED: Final = "created"
    REPAIRED: Final = "updated"
    DELETED: Final = "deleted"
    FAILED: Final = "failed"


Record = Callable[[str, Target, str], None]
"""Called with one of `Write`, the object, and for a failure the API server's words."""


@dataclass(frozen=True, slots=True)
class _Memory:
    """What was applied, over which state, and which state came of it."""

    document: Document
    before: str
    after: str


def decode_stored(body: bytes) -> Stored:
    """The whole object. Raises `ValueError`."""
    found: Stored = json.loads(body)
    return found


def observe_owned(
    cluster: Watched, clock: Clock, random: Random, home: str
) -> dict[Resource, Informer[Sighting[Stored]]]:
    """Watch the objects with the operator's label, in its namespace or without one."""
    return {
        each: observe(
            cluster,
            clock,
            random,
            each,
            decode_stored,
            query=Query(
                namespace=home if each.is_namespaced else "",
                label_selector=SELECTOR,
                # Rights on this namespace alone suffice.
                field_selector=f"metadata.name={home}" if each == NAMESPACES else "",
            ),
        )
        for each in OWNED
    }


@dataclass(eq=False, kw_only=True)
class AppliedObjects:
    """The objects of the installation in the cluster."""

    writer: Writer
    informers: Mapping[Resource, Informer[Sighting[Stored]]]
    may_write: Callable[[], bool]
    send_by: Callable[[], float]
    """The deadline of a write, on the monotonic clock: when this process stops leading."""
    record: Record
    writes: Counter[str] = field(default_factory=Counter, init=False)
    """Totals by `Write`."""

    def __post_init__(self) -> None:
        self._memory: dict[Target, _Memory] = {}

    def forget(self, target: Target) -> None:
        """The object was deleted."""
        self._memory.pop(target, None)

    def forget_all(self) -> None:
        """Compare every object again by its fields."""
        self._memory.clear()

    def is_known(self, resource: Resource) -> bool:
        """Whether the objects of this kind are known, or the API server does not have the kind."""
        return self.informers[resource].is_synced or self.is_missing(resource)

    def is_missing(self, resource: Resource) -> bool:
        """Whether the API server is too old to have the kind."""
        informer = self.informers[resource]
        return resource in RECENT and isinstance(informer.last_error, NotFoundError)

    def find(self, target: Target) -> Stored | None:
        seen = self.informers[target.resource].find(target.key)
        return None if seen is None else seen.item

    async def apply(self, documents: Iterable[Document]) -> list[str]:
        """Apply what differs. Returns what could not be applied, with the API server's words."""
        failures = []
        for document in documents:
            target = target_of(document)
            if self._is_current(target, document) or not self.may_write():
                continue
            try:
                await self._apply(target, document)
            except ClusterError as error:
                failures.append(self._failed(target, error))
        return failures

    def _is_current(self, target: Target, document: Document) -> bool:
        seen = self.informers[target.resource].find(target.key)
        known = self._memory.get(target)
        version = "" if seen is None else seen.identity.resource_version
        is_applied = known is not None and known.document == document
        if is_applied and known is not None and version in {known.before, known.after}:
            # The watch shows what was written, or is about to show it.
            return True
        return seen is not None and has_all(seen.item, document)

    async def _apply(self, target: Target, document: Document) -> None:
        seen = self.informers[target.resource].find(target.key)
        patch = Patch(
            kind=PatchKind.APPLY,
            body=document,
            field_manager=OPERATOR_NAME,
            is_forced=True,
            send_by=self.send_by(),
        )
        body = await self.writer.patch(target.resource, target.key, patch)
        found = find_identity(body)
        after = "" if found is None else found.resource_version
        before = "" if seen is None else seen.identity.resource_version
        self._memory[target] = _Memory(document, before, after)
        if before != after:
            self._note(Write.REPAIRED if before else Write.CREATED, target)

    async def prune(self, wanted: Iterable[Document]) -> list[str]:
        """Delete objects that carry the label and are not wanted. Definitions stay."""
        targets = set(map(target_of, wanted))
        return await self.delete(each for each in self.labelled_targets() if each not in targets)

    def labelled_targets(self) -> Iterator[Target]:
        """All objects with the label that may be deleted, in the order of their deletion."""
        for resource in DELETED:
            for seen in self.informers[resource].snapshot().values():
                yield Target(resource, seen.identity.key)

    async def delete(self, targets: Iterable[Target]) -> list[str]:
        """Delete objects. Returns what could not be deleted."""
        failures = []
        for target in targets:
            seen = self.informers[target.resource].find(target.key)
            if seen is None or not self.may_write():
                continue
            try:
                await self.writer.delete(
                    target.resource,
                    target.key,
                    preconditions=Preconditions(uid=seen.identity.uid),
                )
            except NotFoundError:
                continue
            except ClusterError as error:
                failures.append(self._failed(target, error))
            else:
                self._note(Write.DELETED, target)
        return failures

    def _note(self, write: str, target: Target) -> None:
        self.writes[write] += 1
        LOG.info("an object of the installation was written", write=write, object=str(target))
        self.record(write, target, "")

    def _failed(self, target: Target, error: ClusterError) -> str:
        words = printable(error.message, WORDS_MAX)
        self.writes[Write.FAILED] += 1
        LOG.warning("an object of the installation is refused", object=str(target), error=words)
        self.record(Write.FAILED, target, words)
        return f"{target}: {words}"
