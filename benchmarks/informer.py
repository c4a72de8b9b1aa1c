"""The informer and its rows of pods: bytes, decoding, and events from watch to consumer.

Memory is measured in processes of their own: `python benchmarks/informer.py rows 20000 4`, the
last being the number of pods per workload, which share all that they have in common.
"""

import asyncio
import gc
import json
import subprocess
import sys
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.app.cluster.informer.changes import Upserted
from bursar.app.cluster.informer.informer import Informer
from bursar.app.cluster.informer.store import Store
from bursar.app.cluster.kinds import PODS
from bursar.app.cluster.observe_kinds import identify_pod
from bursar.app.cluster.ports import EVERYTHING, EventKind, Key, Page, Query, Resource, WatchEvent
from bursar.app.cluster.sighting import locate
from bursar.wire.model import pod as wire_pod
from bursar.wire.model.pod_row import PodRowDecoder
from pod_bodies import PER_WORKLOAD, pod_bodies
from ratio import Ratio, alternate

SAMPLE = 4_000
ROUNDS = 5


def measure() -> Iterator[Ratio]:
    yield from _decoding()
    yield from _following()
    theirs = _apart("structs", 20_000)
    for count, per_workload, goal in (
        (20_000, 8, "<= 450"),
        (20_000, 4, "<= 560"),
        (20_000, 2, ""),
        (150_000, 8, "<= 450"),
    ):
        ours = _apart("rows", count, per_workload)
        what = f"{count // 1000}k pods by {per_workload}s, each"
        yield Ratio(what, ours["bytes"], "as slim structs", theirs["bytes"], "bytes", goal)
    for count in (20_000, 150_000):
        rss = _apart("rows-rss", count)
        bare = _apart("rows-rss", 0)
        yield Ratio(f"{count // 1000}k pods, RSS", rss["rss"], "no pods", bare["rss"], "MB")


# ------------------------------------------------------------------ speed


def _decoding() -> Iterator[Ratio]:
    bodies = list(pod_bodies(SAMPLE))
    experienced = PodRowDecoder()

    def each(decode: Callable[[bytes], object]) -> None:
        for body in bodies:
            decode(body)

    def known() -> None:
        each(experienced.decode)

    def anew() -> None:
        each(PodRowDecoder().decode)

    def structs() -> None:
        each(msgspec.json.Decoder(wire_pod.Pod).decode)

    def dicts() -> None:
        each(json.loads)

    known()
    for what, ours, against, theirs, goal in (
        ("decode to rows, known", known, "slim structs", structs, ">= 0.4x"),
        ("decode to rows, anew", anew, "slim structs", structs, ""),
        ("decode to rows, known", known, "json.loads", dicts, ">= 1.5x"),
    ):
        mine, other = alternate(ours, theirs, ROUNDS)
        yield Ratio(what, SAMPLE / mine, against, SAMPLE / other, "pods/s", goal)


class Tape:
    """A cluster that has everything ready: all objects, then every one of them changed."""

    def __init__(self, bodies: list[bytes]) -> None:
        self.initial = [self._event(EventKind.ADDED, body, "1") for body in bodies]
        changed = [
            body.replace(b'"resourceVersion":"9', b'"resourceVersion":"19') for body in bodies
        ]
        self.changes = [
            self._event(EventKind.MODIFIED, body, str(190_000_000 + number))
            for number, body in enumerate(changed)
        ]

    @staticmethod
    def _event(kind: EventKind, body: bytes, version: str) -> WatchEvent:
        return WatchEvent(kind=kind, body=body, resource_version=version)

    async def get(self, resource: Resource, key: Key) -> bytes:
        raise NotImplementedError

    async def list(
        self, resource: Resource, query: Query = EVERYTHING, *, limit: int = 0, page: str = ""
    ) -> Page:
        raise NotImplementedError

    async def watch(
        self,
        resource: Resource,
        query: Query = EVERYTHING,
        *,
        resource_version: str = "",
        send_initial: bool = False,
    ) -> AsyncIterator[WatchEvent]:
        if (resource, query, resource_version, send_initial) != (PODS, EVERYTHING, "", True):
            raise NotImplementedError
        for event in self.initial:
            yield event
        yield WatchEvent(
            kind=EventKind.BOOKMARK, body=b"{}", resource_version="1", ends_initial=True
        )
        for event in self.changes:
            yield event
        await asyncio.Event().wait()


async def follow(tape: Tape) -> None:
    """From the first event to the last change in the consumer's hands."""
    informer = Informer(
        tape,
        tape,
        clock=SYSTEM_CLOCK,
        random=Random(0),  # noqa: S311 - jitter, not a secret
        resource=PODS,
        decode=PodRowDecoder().decode,
        identify=identify_pod,
        locate=locate,
    )
    changes = informer.changes()
    running = asyncio.create_task(informer.run())
    left = len(tape.initial) + len(tape.changes)
    async for change in changes:
        left -= isinstance(change, Upserted)
        if not left:
            break
    running.cancel()
    await asyncio.wait([running])


def _following() -> Iterator[Ratio]:
    bodies = list(pod_bodies(SAMPLE))
    tape = Tape(bodies)
    events = len(tape.initial) + len(tape.changes)

    def decode_only() -> None:
        decode = PodRowDecoder().decode
        for event in (*tape.initial, *tape.changes):
            decode(event.body)

    def follow_all() -> None:
        asyncio.run(follow(tape))

    ours, theirs = alternate(follow_all, decode_only, ROUNDS)
    yield Ratio("watch to consumer", events / ours, "decoding alone", events / theirs, "events/s")
    cpu = _cpu_seconds(follow_all)
    bare = _cpu_seconds(decode_only)
    yield Ratio(
        "CPU per event", cpu / events * 1e6, "decoding alone", bare / events * 1e6, "us", "<= 35"
    )


def _cpu_seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


# ------------------------------------------------------------------ memory, in a process apart


def _apart(what: str, count: int, per_workload: int = PER_WORKLOAD) -> dict[str, float]:
    command = [sys.executable, __file__, what, str(count), str(per_workload)]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def bodies_made_apart(count: int, per_workload: int) -> Iterator[bytes]:
    """Made by another process, so that their making is not measured."""
    command = [sys.executable, __file__, "bodies", str(count), str(per_workload)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as maker:
        yield from maker.stdout or ()


def fill_rows(count: int, per_workload: int) -> Any:
    decoder, store = PodRowDecoder(), Store()
    for body in bodies_made_apart(count, per_workload):
        row = decoder.decode(body)
        store.put(identify_pod(row).key, row)
    return store, decoder


def fill_structs(count: int, per_workload: int) -> Any:
    decode, store = msgspec.json.Decoder(wire_pod.Pod).decode, {}
    for body in bodies_made_apart(count, per_workload):
        pod = decode(body)
        store[Key(pod.metadata.namespace, pod.metadata.name)] = pod
    return store, decode


def _report(what: str, count: int, per_workload: int) -> dict[str, float]:
    if what == "rows-rss":
        store, _ = fill_rows(count, per_workload)
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return {"rss": pages * 4096 / 1e6, "pods": len(store)}
    tracemalloc.start()
    # What the decoder remembers is part of the price.
    store, _ = {"rows": fill_rows, "structs": fill_structs}[what](count, per_workload)
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    return {"bytes": held / len(store)}


def main(what: str, count: int, per_workload: int = PER_WORKLOAD) -> None:
    if what == "bodies":
        for body in pod_bodies(count, per_workload=per_workload):
            sys.stdout.buffer.write(body + b"\n")
    else:
        print(json.dumps(_report(what, count, per_workload)))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
