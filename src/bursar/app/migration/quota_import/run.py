"""Read the quotas to import, create the new ones, and delete originals that are replaced."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from bursar.app.cluster.kinds import NAMESPACES, RESOURCE_QUOTAS
from bursar.app.cluster.ports import (
    AlreadyExistsError,
    Clock,
    ClusterError,
    Key,
    NotFoundError,
    Preconditions,
    Query,
    Reader,
    ReadWriter,
)
from bursar.app.cluster.reading.listing import list_all
from bursar.app.controller.gating_kinds import CONFIGURATIONS
from bursar.app.migration.quota_import.native_quotas import Imported, Original, Surroundings
from bursar.app.names import POD_WEBHOOKS
from bursar.app.quota.kinds import CLUSTER_RESOURCE_QUOTAS
from bursar.core.model.namespace import NAME_LABEL
from bursar.core.model.selectors.selector import Selector, selector_of
from bursar.core.quota.quota import QuotaKind, QuotaObject
from bursar.wire.aaq_installation import decode_metadata
from bursar.wire.model.namespace import decode_namespace
from bursar.wire.quota.gating_configuration import decode_gating
from bursar.wire.quota.objects import decode_quota
from bursar.wire.quota.unreadable import read_quota

POLL_SECONDS: Final = 1.0
READY: Final = "Ready"


class Outcome(Enum):
    """What became of one quota."""

    SKIPPED = "skipped"
    CREATED = "created"
    EXISTS = "exists"
    """A quota of this name exists with the same limits."""
    DIFFERS = "differs"
    """A quota of this name exists with other limits. It is left as it is."""
    FAILED = "failed"


@dataclass(slots=True)
class Result:
    quota: Imported
    outcome: Outcome
    problem: str = ""
    is_original_deleted: bool = False
    why_kept: str = ""
    """Why the original was kept although its deletion was wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """Creates quotas, and deletes originals if that is wanted."""

    cluster: ReadWriter
    clock: Clock
    deletes: bool = False
    timeout_seconds: float = 60
    """How long to wait until the controller says that a new quota is in force."""
    on_result: Callable[[Result], None] = field(default=lambda _: None)

    async def run(self, quotas: Iterable[Imported]) -> list[Result]:
        results = []
        for each in quotas:
            result = await self._import(each)
            self.on_result(result)
            results.append(result)
        return results

    async def _import(self, each: Imported) -> Result:
        if each.manifest is None:
            return Result(each, Outcome.SKIPPED, " ".join(each.notes))
        try:
            outcome = await self._create(each)
        except ClusterError as error:
            return Result(each, Outcome.FAILED, str(error))
        result = Result(each, outcome)
        if outcome is Outcome.DIFFERS:
            result.problem = f"a {each.resource.kind} of this name has other limits"
        elif self.deletes:
            try:
                await self._delete_original(result)
            except ClusterError as error:
                result.outcome, result.problem = Outcome.FAILED, str(error)
        return result

    async def _create(self, each: Imported) -> Outcome:
        assert each.manifest is not None
        try:
            await self.cluster.create(
                each.resource, each.manifest, namespace=each.original.key.namespace
            )
        except AlreadyExistsError:
            stored = await self._stored(each)
            quota = each.original.quota
            wanted = {name: quota.hard[name] for name in quota.hard if name not in each.left_out}
            is_same = stored.quota.hard == wanted and stored.quota.scopes == quota.scopes
            return Outcome.EXISTS if is_same else Outcome.DIFFERS
        return Outcome.CREATED

    async def _stored(self, each: Imported) -> QuotaObject:
        kind = QuotaKind(each.resource.kind)
        return read_quota(kind, await self.cluster.get(each.resource, each.original.key))

    async def _delete_original(self, result: Result) -> None:
        """Delete the original if the new quota enforces all of it, and does so already."""
        each = result.quota
        if not each.is_replaceable:
            result.why_kept = f"only it can limit {', '.join(each.left_out)}"
            return
        result.why_kept = await self._why_not_in_force(each)
        if result.why_kept:
            return
        conditions = Preconditions(uid=each.original.metadata.uid)
        original = each.original
        await self.cluster.delete(original.resource, original.key, preconditions=conditions)
        result.is_original_deleted = True

    async def _why_not_in_force(self, each: Imported) -> str:
        """Why the controller does not report the new quota as in force; empty if it does."""
        deadline = self.clock.monotonic() + self.timeout_seconds
        while True:
            stored = await self._stored(each)
            ready = next((c for c in stored.reported_conditions if c.type == READY), None)
            is_current = ready is not None and ready.observed_generation in {0, stored.generation}
            if ready is not None and is_current and ready.status == "True":
                return ""
            if self.clock.monotonic() >= deadline:
                said = "no controller has reported about it" if ready is None else ready.message
                return f"the new quota is not in force: {said}"
            await self.clock.sleep(POLL_SECONDS)


# ------------------------------------------------------------------ reading


async def read_originals(
    reader: Reader, namespace: str, home: str
) -> tuple[list[Original], Surroundings]:
    """The native quotas of one namespace, or of all and the cluster. Raises `ClusterError`.

    OpenShift's ClusterResourceQuotas are left out if the API does not exist.
    """
    bodies = await list_all(reader, RESOURCE_QUOTAS, Query(namespace=namespace), bytes)
    found = [native_original(body) for body in bodies]
    if not namespace:
        try:
            cluster_wide = await list_all(reader, CLUSTER_RESOURCE_QUOTAS, Query(), bytes)
        except NotFoundError:
            cluster_wide = []
        found += [cluster_original(body) for body in cluster_wide]
    return found, Surroundings(home=home, gated=await _gated(reader))


async def _gated(reader: Reader) -> frozenset[str] | None:
    """The namespaces in which pods are gated; None if no policy or webhook gates pods."""
    selectors: list[Selector] = []
    for resource, name in CONFIGURATIONS:
        if not resource.kind.startswith("Mutating"):
            continue
        try:
            body = await reader.get(resource, Key("", name))
        except NotFoundError:
            continue
        selectors += map(selector_of, decode_gating(body, POD_WEBHOOKS).selectors)
    if not selectors:
        return None
    namespaces = await list_all(reader, NAMESPACES, Query(), decode_namespace)
    return frozenset(
        each.name
        for each in namespaces
        if any(one.matches({**each.labels, NAME_LABEL: each.name}) for one in selectors)
    )


def native_original(body: bytes) -> Original:
    """A ResourceQuota. Raises `ValueError`."""
    read = decode_quota(QuotaKind.NATIVE, body)
    return Original(resource=RESOURCE_QUOTAS, metadata=decode_metadata(body), quota=read.quota)


def cluster_original(body: bytes) -> Original:
    """A ClusterResourceQuota, which has the form of a cluster-wide quota. Raises `ValueError`."""
    read = read_quota(QuotaKind.CLUSTER, body)
    return Original(
        resource=CLUSTER_RESOURCE_QUOTAS,
        metadata=decode_metadata(body),
        quota=read.quota,
        selector=(json.loads(body).get("spec") or {}).get("selector"),
    )
