"""Counting one new pod of a large namespace by a sidecar, against what AAQ's controller does.

The sidecar is the same Go program for both. AAQ's part is Go as well, on its own protocol code: for
each pod that changes it asks about every pod of the namespace, each time on a new connection and
with every pod encoded anew. A few of these calls are made; the rest is multiplication. Ours is
the controller's feed: it asks about the new pod at once, and in the second pair of rows also sweeps
the namespace in the background.
"""

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from assets import ensure
from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.sidecars.connection import CallLimits
from bursar.adapters.sidecars.sockets import SocketFolder
from bursar.app.cluster.time_limit import end
from bursar.app.counting.sidecars.feed import SidecarFeed
from bursar.core.counting.counter import Pending
from bursar.core.counting.sidecars import SidecarCounter, SidecarRules
from bursar.core.model.pod_row import PodRow
from bursar.wire.counting.pod_body import keep_body
from bursar.wire.model.pod_row import PodRowDecoder
from pod_bodies import pod_bodies
from ratio import Ratio
from support.counting.go_sidecar import GoSidecar, go_sidecar
from support.until import until

PODS = 5_000
NEW_PODS = 7
AAQ_CALLS = 3
BUSY_SECONDS = 20.0
MESSAGE_BYTES = 64 * 2**20
GOAL = ">= 20"
"""How many times less than AAQ."""


def measure() -> Iterator[Ratio]:
    bodies = [_in_one_namespace(body) for body in pod_bodies(PODS + NEW_PODS + 1)]
    with go_sidecar(f"--max-message={MESSAGE_BYTES}") as sidecar:
        theirs_bytes, theirs_s = _aaq(sidecar, bodies[:PODS])
        yield from asyncio.run(_ours(sidecar, bodies, theirs_bytes, theirs_s))


def _in_one_namespace(body: bytes) -> bytes:
    pod = json.loads(body)
    pod["metadata"]["namespace"] = "large"
    pod["metadata"]["labels"]["label-app"] = "shop"
    pod["spec"].pop("schedulingGates", None)
    pod["status"]["phase"] = "Running"
    return json.dumps(pod).encode()


def _aaq(sidecar: GoSidecar, bodies: list[bytes]) -> tuple[float, float]:
    """Bytes and seconds to ask about every pod of the namespace once."""
    [socket] = sidecar.living()
    pods = [json.loads(body) for body in bodies]
    for pod in pods:
        del pod["metadata"]["managedFields"]  # which a careful informer would drop
    ran = subprocess.run(
        [ensure("aaq-sidecar"), "recount", f"--socket={socket}", f"--calls={AAQ_CALLS}"],
        input=json.dumps({"existing": pods}).encode(),
        capture_output=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr.decode()
    found = json.loads(ran.stdout)
    calls = len(bodies) / AAQ_CALLS
    return found["bytes"] * calls, found["seconds"] * calls


async def _ours(
    sidecar: GoSidecar, bodies: list[bytes], theirs_bytes: float, theirs_s: float
) -> list[Ratio]:
    async with _counting(sidecar, bodies, sweeps=False) as (feed, rows, recounted):
        taken = [await _count(feed.counter, row, recounted) for row in rows]
        one_s, one_mb = statistics.median(taken), feed.counters.bytes_sent / len(rows) / 1e6
    what = f"AAQ: new pod among {PODS:,}"
    ratios = [
        Ratio(what, theirs_bytes / 1e6, "Bursar", one_mb, "MB", GOAL),
        Ratio(what, theirs_s, "Bursar", one_s, "s", GOAL),
        Ratio("AAQ: one question", theirs_bytes / PODS / 1e6, "Bursar", one_mb, "MB"),
        Ratio("AAQ: one question", theirs_s / PODS, "Bursar", one_s, "s"),
    ]
    async with _counting(sidecar, bodies, sweeps=True) as (feed, rows, recounted):
        began = time.monotonic()
        for row in rows:
            await _count(feed.counter, row, recounted)
            await asyncio.sleep(BUSY_SECONDS / NEW_PODS)
        busy_s, busy_mb = time.monotonic() - began, feed.counters.bytes_sent / 1e6
        assert feed.counters.swept, "the namespace is swept in the background"
    what = f"AAQ: {len(rows)} pods; we sweep, {busy_s:.0f} s"
    ratios.append(
        Ratio(what, len(rows) * theirs_bytes / 1e6, "Bursar", busy_mb, "MB", GOAL),
    )
    return ratios


@asynccontextmanager
async def _counting(
    sidecar: GoSidecar, bodies: list[bytes], *, sweeps: bool
) -> AsyncIterator[tuple[SidecarFeed, list[PodRow], asyncio.Event]]:
    """A feed with the pods of a namespace, the rows of new ones, and what a recount sets."""
    counter = SidecarCounter(SidecarRules(expected=1, sees_namespace=sweeps), keep_body)
    sockets = SocketFolder(str(sidecar.sockets), limits=CallLimits(evaluate_s=60))
    feed = SidecarFeed(counter, sockets, SYSTEM_CLOCK)
    decode = PodRowDecoder(lambda body: (counter.derive_facts(body),)).decode
    rows = [decode(body) for body in bodies]
    for row in rows[:PODS]:
        counter.see_pod(row)
    recounted = asyncio.Event()
    task = asyncio.create_task(feed.run(lambda _: recounted.set()))
    await until(lambda: counter.slots[0].name)
    _mark_answered(counter)
    await _count(counter, rows[PODS], recounted)  # encodes the namespace for the first time
    feed.counters.bytes_sent = 0
    try:
        yield feed, rows[PODS + 1 :], recounted
    finally:
        await end(task)


def _mark_answered(counter: SidecarCounter) -> None:
    """As if the sidecar had been asked about every pod there is."""
    slot = counter.slots[0]
    while found := counter.next_question(slot, 0):
        question, _ = found
        counter.answer(slot, question, 0, {})


async def _count(counter: SidecarCounter, row: PodRow, recounted: asyncio.Event) -> float:
    """Seconds until it is known what a new pod costs."""
    began = time.monotonic()
    counter.see_pod(row)
    while isinstance(counter.count(row), Pending):
        recounted.clear()
        await recounted.wait()
    return time.monotonic() - began
