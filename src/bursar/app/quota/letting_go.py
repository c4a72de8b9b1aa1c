"""Letting pods go without asking a quota, as before an uninstallation.

Only our own gate is taken away; other people's stay. Each write is fenced like the
controller's. A pod that changes meanwhile is read again and tried once more.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.ports import (
    ClusterError,
    ConflictError,
    Json,
    Key,
    NotFoundError,
    Patch,
    PatchKind,
    Query,
    Reader,
    Writer,
)
from bursar.core.model.pod_row import PodRow
from bursar.core.quota.quota import GATE

PAGE: Final = 500
IN_FLIGHT_MAX: Final = 32
TRIES: Final = 5

Decode = Callable[[bytes], PodRow]


@dataclass(slots=True)
class LetGo:
    """What became of the pods that were behind our gate."""

    freed: list[Key] = field(default_factory=list)
    failed: dict[Key, ClusterError] = field(default_factory=dict)


async def gated_pods(reader: Reader, decode: Decode, namespace: str) -> AsyncIterator[PodRow]:
    """The pods behind our gate, of one namespace or, if that is empty, of all."""
    page = ""
    while True:
        listed = await reader.list(PODS, Query(namespace=namespace), limit=PAGE, page=page)
        for body in listed.items:
            row = decode(body)
            if GATE in row.profile.gates:
                yield row
        page = listed.next_page
        if not page:
            return


async def let_go(
    reader: Reader,
    writer: Writer,
    rows: Iterable[PodRow],
    *,
    decode: Decode,
    progress: Callable[[], None],
) -> LetGo:
    """Take our gate off all of these pods. `progress` is called once for each."""
    done = LetGo()
    turns = asyncio.Semaphore(IN_FLIGHT_MAX)

    async def free(row: PodRow) -> None:
        key = Key(row.namespace, row.name)
        async with turns:
            try:
                if await _free(reader, writer, row, decode):
                    done.freed.append(key)
            except ClusterError as error:
                done.failed[key] = error
            progress()

    async with asyncio.TaskGroup() as tasks:
        for row in rows:
            tasks.create_task(free(row))
    return done


async def _free(reader: Reader, writer: Writer, row: PodRow, decode: Decode) -> bool:
    """Whether it was us who took the gate off. Raises why it could not be done."""
    key = Key(row.namespace, row.name)
    for tries_left in range(TRIES, 0, -1):
        try:
            await writer.patch(PODS, key, Patch(kind=PatchKind.JSON, body=_without_gate(row)))
        except NotFoundError:
            return False
        except ConflictError:
            if tries_left == 1:
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


def _without_gate(row: PodRow) -> Json:
    stamp = row.stamp
    return [
        {"op": "test", "path": "/metadata/uid", "value": stamp.uid},
        {"op": "test", "path": "/metadata/resourceVersion", "value": stamp.resource_version},
        {
            "op": "replace",
            "path": "/spec/schedulingGates",
            "value": [{"name": gate} for gate in row.profile.gates if gate != GATE],
        },
    ]
