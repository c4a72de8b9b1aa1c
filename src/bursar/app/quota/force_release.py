"""Remove the quota gate from pods without asking a quota, for example before an uninstallation.

Other scheduling gates stay. Each patch is fenced by uid and resourceVersion. If a pod changes
meanwhile, it is read again and the patch is retried.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.listing import list_all
from bursar.app.cluster.observe_kinds import identify_pod
from bursar.app.cluster.patches import fenced_patch, put
from bursar.app.cluster.ports import (
    ClusterError,
    ConflictError,
    Key,
    NotFoundError,
    Query,
    Reader,
    Writer,
)
from bursar.core.model.pod_row import PodRow
from bursar.core.quota.quota import GATE

IN_FLIGHT_MAX: Final = 32
ATTEMPTS_MAX: Final = 5

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
) -> ForcedReleases:
    """Remove the quota gate from all of these pods. `progress` is called once for each."""
    outcome = ForcedReleases()
    slots = asyncio.Semaphore(IN_FLIGHT_MAX)

    async def release(row: PodRow) -> None:
        key = Key(row.namespace, row.name)
        async with slots:
            try:
                if await _release(reader, writer, row, decode):
                    outcome.released.append(key)
            except ClusterError as error:
                outcome.failed[key] = error
            progress()

    async with asyncio.TaskGroup() as tasks:
        for row in rows:
            tasks.create_task(release(row))
    return outcome


async def _release(reader: Reader, writer: Writer, row: PodRow, decode: Decode) -> bool:
    """Whether this call removed the gate; false if it is gone already. Raises `ClusterError`."""
    key = Key(row.namespace, row.name)
    for attempt in range(1, ATTEMPTS_MAX + 1):
        others = [{"name": gate} for gate in row.profile.gates if gate != GATE]
        operations = [put("/spec/schedulingGates", others)]
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
