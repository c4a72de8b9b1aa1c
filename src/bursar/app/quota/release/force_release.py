"""Remove the quota gate from pods without asking a quota, for example before an uninstallation.

A pod with other scheduling gates keeps all its gates: without the quota gate, it would start when
the others are removed, and no quota would have been charged before. Only when gating has stopped,
the quota gate is removed from such pods as well, and their other gates stay.

Each patch is fenced by uid and resourceVersion. If a pod changes meanwhile, it is read again and
the patch is retried.

Before an uninstallation, gating must stop first: `stop_gating` deletes the objects that gate pods,
and `release_all` releases pods until no more appear. API servers learn of the deletion with a
delay, so pods may still be gated, and gates still be protected, for some seconds after it.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from bursar.app.cluster.kinds import (
    MUTATING_BINDINGS,
    MUTATING_WEBHOOKS,
    PODS,
    VALIDATING_BINDINGS,
    VALIDATING_WEBHOOKS,
)
from bursar.app.cluster.observe_kinds import identify_pod
from bursar.app.cluster.patches import fenced_patch, remove
from bursar.app.cluster.ports import (
    Clock,
    ClusterError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    Key,
    NotFoundError,
    Query,
    Reader,
    Resource,
    Writer,
)
from bursar.app.cluster.reading.listing import list_all
from bursar.app.names import (
    GATING_POLICY,
    GATING_WEBHOOKS,
    PROTECTION_POLICY,
    PROTECTION_WEBHOOKS,
    WAITING_PODS_POLICY,
)
from bursar.core.model.pod_row import PodRow
from bursar.core.quota.quota import GATE
from bursar.core.quota.refusal import behind_gates

IN_FLIGHT_MAX: Final = 32
ATTEMPTS_MAX: Final = 5
ROUNDS_MAX: Final = 10
SETTLE_SECONDS: Final = 1.0
"""Time between two rounds of `release_all`."""


OTHER_GATES: Final = (
    "it has other scheduling gates ({}), and without the quota gate it would start uncharged when "
    "they are removed: remove them first"
)


GATING_OBJECTS: Final = (
    (MUTATING_BINDINGS, Key("", GATING_POLICY)),
    (MUTATING_WEBHOOKS, Key("", GATING_WEBHOOKS)),
)
"""The objects without which no pod gets the gate."""
LIMIT_OBJECTS: Final = ((VALIDATING_BINDINGS, Key("", WAITING_PODS_POLICY)),)
"""The objects that refuse new pods of full namespaces. They are deleted too: without a leader, a
namespace would stay full although no pod waits in it any more."""
PROTECTION_OBJECTS: Final = (
    (VALIDATING_BINDINGS, Key("", PROTECTION_POLICY)),
    (VALIDATING_WEBHOOKS, Key("", PROTECTION_WEBHOOKS)),
)
"""The objects that deny the removal of a gate to everyone except the controller."""

Decode = Callable[[bytes], PodRow]


@dataclass(slots=True)
class ForcedReleases:
    """The outcome for the pods whose gate was to be removed."""

    released: list[Key] = field(default_factory=list)
    failed: dict[Key, ClusterError] = field(default_factory=dict)


async def gated_pods(reader: Reader, decode: Decode, namespace: str) -> list[PodRow]:
    """The pods with the quota gate in one namespace, or in all if `namespace` is empty."""
    rows = await list_all(reader, PODS, Query(namespace=namespace), decode)
    return [row for row in rows if GATE in row.profile.gates]


async def force_release(
    reader: Reader,
    writer: Writer,
    rows: Iterable[PodRow],
    *,
    decode: Decode,
    progress: Callable[[], None],
    is_gating: bool = True,
) -> ForcedReleases:
    """Remove the quota gate from all of these pods. `progress` is called once for each.

    While gating goes on, pods that have other gates fail.
    """
    outcome = ForcedReleases()
    slots = asyncio.Semaphore(IN_FLIGHT_MAX)

    async def release(row: PodRow) -> None:
        key = Key(row.namespace, row.name)
        async with slots:
            try:
                if await _release(reader, writer, row, decode, is_gating=is_gating):
                    outcome.released.append(key)
            except ClusterError as error:
                outcome.failed[key] = error
            progress()

    async with asyncio.TaskGroup() as tasks:
        for row in rows:
            tasks.create_task(release(row))
    return outcome


async def stop_gating(writer: Writer) -> list[str]:
    """Delete the objects that gate or refuse pods and those that protect gates; return their names.

    An object that does not exist is no failure. Objects that refuse pods or protect gates stay if
    the user may not delete them: the controller's account may not delete those that protect gates,
    and does not need to. Raises `ClusterError` if an object that gates pods cannot be deleted.
    """
    deleted = []
    for resource, key in GATING_OBJECTS:
        if await _delete(writer, resource, key):
            deleted.append(f"{resource.kind} {key}")
    for resource, key in (*LIMIT_OBJECTS, *PROTECTION_OBJECTS):
        try:
            if await _delete(writer, resource, key):
                deleted.append(f"{resource.kind} {key}")
        except ForbiddenError:
            continue
    return deleted


async def _delete(writer: Writer, resource: Resource, key: Key) -> bool:
    try:
        await writer.delete(resource, key)
    except NotFoundError:
        return False
    return True


async def release_all(
    reader: Reader, writer: Writer, clock: Clock, *, decode: Decode
) -> ForcedReleases:
    """Release all pods after `stop_gating`, in rounds.

    The last round finds no gated pod, and at least two rounds come before it. Pods that could not
    be released are tried again in the next round, up to `ROUNDS_MAX` rounds.
    """
    outcome = ForcedReleases()
    for number in range(ROUNDS_MAX):
        if number:
            await clock.sleep(SETTLE_SECONDS)
        rows = await gated_pods(reader, decode, "")
        done = await force_release(
            reader, writer, rows, decode=decode, progress=_nothing, is_gating=False
        )
        outcome.released += done.released
        outcome.failed = done.failed
        if not rows and number >= 2:
            break
    return outcome


def _nothing() -> None:
    """Show no progress, because the number of pods is not known in advance."""


async def _release(
    reader: Reader, writer: Writer, row: PodRow, decode: Decode, *, is_gating: bool
) -> bool:
    """Whether this call removed the gate; false if it is gone already. Raises `ClusterError`."""
    key = Key(row.namespace, row.name)
    for attempt in range(1, ATTEMPTS_MAX + 1):
        others = [gate for gate in row.profile.gates if gate != GATE]
        if others and is_gating:
            named = behind_gates(others, row.profile.gates_left_out).detail
            raise InvalidError(OTHER_GATES.format(named), key=key)
        # The fence makes sure that the gate is still at this index.
        operations = [remove(f"/spec/schedulingGates/{row.profile.gate_index}")]
        try:
            patch = fenced_patch(identify_pod(row), operations, is_exact=True)
            await writer.patch(PODS, key, patch)
        except NotFoundError:
            return False
        except ConflictError:
            if attempt == ATTEMPTS_MAX:
                raise
            try:
                row = decode(await reader.get(PODS, key))
            except NotFoundError:
                return False
            if GATE not in row.profile.gates:
                return False
        else:
            return True
    return False
