"""A report of a node's disk as plain data: what `bursar top disk -o json` and the agent print.

Amounts are bytes. A value that is not known is null.
"""

from bursar.app.storage.report import Forecast, NodeReport, PodStorage
from bursar.core.model.quantity import Quantity
from bursar.core.storage.pod import StoragePod
from bursar.core.storage.usage import NO_USE, ContainerUse, Measure


def node_document(report: NodeReport) -> dict[str, object]:
    filesystem = report.nodefs
    return {
        "node": report.node,
        "problem": report.problem or None,
        "filesystem": None
        if filesystem is None
        else {
            "capacity": filesystem.capacity,
            "available": filesystem.available,
            "inodes": filesystem.inodes,
            "inodesFree": filesystem.inodes_free,
        },
        "imageFilesystem": report.has_image_filesystem,
        "allocatable": report.allocatable,
        "requested": report.requested,
        "signals": [
            {
                "signal": each.state.signal.value,
                "available": each.state.available,
                "threshold": each.state.threshold.whole_units,
                "met": each.state.is_met,
                "secondsLeft": each.seconds,
            }
            for each in report.signals
        ],
        "pods": [_pod(row) for row in report.rows],
    }


def _pod(row: PodStorage) -> dict[str, object]:
    pod, use, next_limit = row.pod, row.use, row.next_limit
    evicted_for = row.evicted_for
    return {
        "namespace": pod.namespace,
        "pod": pod.name,
        "uid": pod.uid,
        "used": use.total,
        "request": pod.request.whole_units,
        "limit": _bytes(pod.limit),
        "writable": use.writable,
        "logs": use.logs,
        "volumeBytes": use.volume_bytes,
        "other": use.other,
        "complete": use.is_complete,
        "ageSeconds": use.age_ms // 1000,
        "bytesPerSecond": row.bytes_per_second,
        "evictionPlace": row.place,
        "evicted": evicted_for is not None,
        "reason": None if evicted_for is None else evicted_for.message.strip(),
        "secondsLeft": row.seconds_left,
        "nextLimit": None if next_limit is None else _limit(next_limit),
        "containers": [
            {
                "name": name,
                "writable": found.writable,
                "logs": found.logs,
                "request": _request(pod, name),
                "limit": _container_limit(pod, name),
            }
            for name, found in _containers(row)
        ],
        "volumes": [_volume(pod, name, measure) for name, measure in use.volumes.items()],
    }


def _containers(row: PodStorage) -> list[tuple[str, ContainerUse]]:
    names = dict.fromkeys([*(each.name for each in row.pod.containers), *row.use.containers])
    return [(name, row.use.containers.get(name, NO_USE)) for name in names]


def _request(pod: StoragePod, container: str) -> int | None:
    found = next((each for each in pod.containers if each.name == container), None)
    return None if found is None else found.request.whole_units


def _container_limit(pod: StoragePod, container: str) -> int | None:
    found = next((each for each in pod.containers if each.name == container), None)
    return None if found is None else _bytes(found.limit)


def _volume(pod: StoragePod, name: str, measure: Measure) -> dict[str, object]:
    found = next((each for each in pod.volumes if each.name == name), None)
    return {
        "name": name,
        "used": measure.used,
        "sizeLimit": None if found is None else _bytes(found.size_limit),
        "inodes": measure.inodes,
        "way": measure.way.value,
        "complete": measure.is_complete,
        "problem": measure.problem or None,
        "ageSeconds": measure.age_ms // 1000,
    }


def _limit(forecast: Forecast) -> dict[str, object]:
    state = forecast.state
    return {
        "kind": state.kind.value,
        "name": state.name or None,
        "used": state.used,
        "limit": _bytes(state.limit),
        "bytesPerSecond": forecast.bytes_per_second,
        "secondsLeft": forecast.seconds,
    }


def _bytes(amount: Quantity | None) -> int | None:
    return None if amount is None else amount.whole_units
