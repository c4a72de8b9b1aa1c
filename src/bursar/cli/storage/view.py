"""Tables of nodes' disks, from the documents that the agent and `-o json` have."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

POD_COLUMNS: Final = (
    *("NODE", "NAMESPACE", "POD", "USED", "REQUEST", "LIMIT"),
    *("VOLUMES", "LOGS", "WRITABLE", "GROWTH", "EVICTION"),
)
NODE_COLUMNS: Final = ("NODE", "CAPACITY", "AVAILABLE", "ALLOCATABLE", "REQUESTED", "PRESSURE")
NOTHING: Final = "-"
_UNITS: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_LEAST: Final = 10
"""A size has at least two digits, so that rounding hides less than a tenth."""

Document: TypeAlias = Mapping[str, Any]


def size(amount: int | None) -> str:
    """A size for people, rounded down.

    >>> size(9000), size(12_345_678), size(-20_000), size(None)
    ('9000', '11Mi', '-19Ki', '-')
    """
    if amount is None:
        return NOTHING
    power, left = 0, abs(amount)
    while left >= _LEAST * 1024 and power < len(_UNITS) - 1:
        left //= 1024
        power += 1
    return f"{'-' if amount < 0 else ''}{left}{_UNITS[power]}"


def time_left(seconds: int | None) -> str:
    """A time for people.

    >>> time_left(0), time_left(59), time_left(3_700), time_left(200_000), time_left(None)
    ('now', '59s', '61m', '55h', '-')
    """
    if seconds is None:
        return NOTHING
    if seconds == 0:
        return "now"
    if seconds < 120:
        return f"{seconds}s"
    return f"{seconds // 60}m" if seconds < 7200 else f"{seconds // 3600}h"


def pod_rows(nodes: Sequence[Document], namespace: str) -> Iterator[Sequence[str]]:
    for node in nodes:
        for pod in node["pods"]:
            if namespace and pod["namespace"] != namespace:
                continue
            least = "" if pod["complete"] else ">="
            yield (
                *(node["node"], pod["namespace"], pod["pod"]),
                least + size(pod["used"]),
                size(pod["request"] or None),
                *map(size, (pod["limit"], pod["volumeBytes"], pod["logs"], pod["writable"])),
                _growth(pod["bytesPerSecond"]),
                _eviction(pod),
            )


def _growth(bytes_per_second: int | None) -> str:
    return f"{size(bytes_per_second)}/s" if bytes_per_second else NOTHING


def _eviction(pod: Document) -> str:
    if pod["evicted"]:
        return f"now: {pod['reason']}"
    limit = pod["nextLimit"]
    if limit is None or pod["secondsLeft"] is None:
        return NOTHING
    what = limit["name"] or "the pod's limit"
    return f"in {time_left(pod['secondsLeft'])}: {what}"


def node_rows(nodes: Sequence[Document]) -> Iterator[Sequence[str]]:
    for node in nodes:
        filesystem = node["filesystem"] or {"capacity": None, "available": None}
        yield (
            node["node"],
            *map(size, (filesystem["capacity"], filesystem["available"])),
            *map(size, (node["allocatable"], node["requested"])),
            _pressure(node["signals"]),
        )


def _pressure(signals: Sequence[Document]) -> str:
    met = [each["signal"] for each in signals if each["met"]]
    if met:
        return f"now: {', '.join(met)}"
    soon = [each for each in signals if each["secondsLeft"] is not None]
    if not soon:
        return NOTHING
    first = min(soon, key=lambda each: int(each["secondsLeft"]))
    return f"in {time_left(first['secondsLeft'])}: {first['signal']}"
