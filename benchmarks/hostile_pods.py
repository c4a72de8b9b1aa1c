"""Pods of a hostile tenant: what their updates cost the controller in time and memory.

Each case is decoded and entered into the books in a process of its own:
`python benchmarks/hostile_pods.py wide 1000`. RSS is taken after a tenth of the updates, when
caches are warm, and at the end.
"""

import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bursar.core.model.quantity import Quantity
from bursar.core.quota.books import Books
from bursar.core.quota.counting import NativeCounter
from bursar.core.quota.coverage import Namespace
from bursar.core.quota.quota import Quota, QuotaKey, QuotaKind
from bursar.wire.model.pod_row import PodRowDecoder
from ratio import Ratio

UID = "00000000-0000-4000-8000-000000000001"
NAMES = {f"example.com/r{number:05d}": "1" for number in range(15_000)}
ORDINARY = {"cpu": "100m", "memory": "64Mi"}
CASES = (
    ("wide", 1_000, "15,000 names, updated"),
    ("wide-new", 200, "15,000 names, new each time"),
    ("labels", 100_000, "other labels each time"),
    ("resources", 100_000, "other requests each time"),
    ("containers", 5_000, "45 containers, updated"),
    ("ordinary", 100_000, "ordinary pod, updated"),
)


def measure() -> Iterator[Ratio]:
    ordinary = _apart("ordinary", 100_000)
    for case, updates, what in CASES:
        found = _apart(case, updates)
        us, theirs = found["seconds"] / updates * 1e6, ordinary["seconds"] / 100_000 * 1e6
        yield Ratio(what, us, "ordinary pod", theirs, "us/update")
        per_byte = found["seconds"] / updates / found["bytes"] * 1e9
        theirs = ordinary["seconds"] / 100_000 / ordinary["bytes"] * 1e9
        yield Ratio("  for each byte of it", per_byte, "ordinary pod", theirs, "ns/byte")
        yield Ratio(
            f"  RSS after {updates:,}", found["rss_end"], "warm", found["rss_warm"], "MB", "<= 1.2x"
        )


def _pod(case: str, version: int) -> dict[str, Any]:
    labels = {"app": "web"}
    containers = [_container("c", ORDINARY)]
    match case:
        case "wide":
            containers, labels = [_container("c", NAMES)], {"version": str(version)}
        case "wide-new":
            containers = [_container("c", {**NAMES, f"example.com/x{version}": "1"})]
        case "labels":
            labels = {"app": "web", f"key-{version}": f"value-{version}"}
        case "resources":
            containers = [_container("c", {"cpu": f"{version}m", "memory": "64Mi"})]
        case "containers":
            containers = [_container(f"c{number}", ORDINARY) for number in range(45)]
    metadata = {
        "name": "web",
        "namespace": "tenant",
        "uid": UID,
        "resourceVersion": str(version),
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": labels,
    }
    status = {"phase": "Running", "qosClass": "Burstable"}
    return {"metadata": metadata, "spec": {"containers": containers}, "status": status}


def _container(name: str, amounts: dict[str, str]) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": amounts, "limits": amounts}}


def _update(updates: int, body_of: Callable[[int], bytes]) -> dict[str, float]:
    decode, books = PodRowDecoder().decode, Books(NativeCounter().count)
    books.see_namespace(Namespace(name="tenant"))
    hard = {"pods": "10", "requests.cpu": "1000", "requests.example.com/r00007": "10"}
    key = QuotaKey(QuotaKind.NAMESPACED, "tenant", "all")
    books.see_quota(
        Quota(key=key, hard={name: Quantity.parse(text) for name, text in hard.items()})
    )
    seconds, warm, size = 0.0, 0.0, 0
    for version in range(1, updates + 1):
        body = body_of(version)
        size += len(body)
        started = time.perf_counter()
        books.see_pod(decode(body))
        books.decide()
        seconds += time.perf_counter() - started
        books.ledger.touched.clear()
        if version == updates // 10:
            warm = _rss_mb()
    return {
        "seconds": seconds,
        "bytes": size / updates,
        "rss_warm": warm,
        "rss_end": _rss_mb(),
    }


def _rss_mb() -> float:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 1e6


def _apart(case: str, updates: int) -> dict[str, float]:
    command = [sys.executable, __file__, case, str(updates)]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(ended.stdout)
    return found


def main() -> None:
    case, updates = sys.argv[1], int(sys.argv[2])

    def body_of(version: int) -> bytes:
        return json.dumps(_pod(case, version), separators=(",", ":")).encode()

    print(json.dumps(_update(updates, body_of)))


if __name__ == "__main__":
    main()
