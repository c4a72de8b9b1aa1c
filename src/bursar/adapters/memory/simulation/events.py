"""Events that parts of the simulation write, as the components of a real cluster do."""

from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

import msgspec

from bursar.adapters.memory.simulation.cluster import Cluster, Raw
from bursar.adapters.memory.simulation.inbox import key_of
from bursar.adapters.memory.simulation.turns import Turns
from bursar.adapters.memory.simulation.workloads.effects import Create
from bursar.app.cluster.kinds import EVENTS
from bursar.app.cluster.micro_time import format_micro_time
from bursar.app.cluster.ports import Clock, NotFoundError
from bursar.wire.cluster.event import decode_event

KEPT: Final = timedelta(hours=1)
"""How long an event is kept, as by the API server."""
EXPIRY_SECONDS: Final = 60.0
NOTE_LENGTH_MAX: Final = 1000


def event(  # noqa: PLR0913 - the fields of an event
    regarding: Raw,
    kind: str,
    now: datetime,
    *,
    reason: str,
    note: str,
    reporter: str,
    action: str,
    is_warning: bool = True,
) -> Create:
    """An event about an object of the cluster."""
    meta = regarding["metadata"]
    namespace = meta.get("namespace") or "default"
    body = {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {
            "name": f"{meta['name']}.{round(now.timestamp() * 1_000_000):x}",
            "namespace": namespace,
        },
        "eventTime": format_micro_time(now),
        "reportingController": reporter,
        "reportingInstance": reporter,
        "action": action,
        "reason": reason,
        "type": "Warning" if is_warning else "Normal",
        "regarding": {
            "apiVersion": regarding.get("apiVersion", "v1"),
            "kind": kind,
            "namespace": namespace,
            "name": meta["name"],
            "uid": meta.get("uid", ""),
        },
        "note": note[:NOTE_LENGTH_MAX],
    }
    return Create(resource=EVENTS, namespace=namespace, body=body)


class EventExpiry:
    """Deletes old events, so that a cluster that runs for days does not grow."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock

    async def run(self) -> None:
        while True:
            await self._clock.sleep(EXPIRY_SECONDS)
            page, turns = await self._cluster.list(EVENTS), Turns(self._clock)
            for body in page.items:
                await turns.pause()
                if self._is_old(body):
                    with suppress(NotFoundError):
                        await self._cluster.delete(EVENTS, key_of(body))

    def _is_old(self, body: bytes) -> bool:
        try:
            time = decode_event(body).time
        except (ValueError, msgspec.MsgspecError):
            return False
        return time is not None and time + KEPT < self._clock.now()
