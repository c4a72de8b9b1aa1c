"""The folders of the node's pods: emptyDir and configMap volumes, logs, and `/etc/hosts` files.

The layout is the kubelet's: `pods/UID/volumes/PLUGIN/NAME` below its folder, and one log folder for
each pod, with a folder for each container.
"""

import asyncio
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final, Protocol, Self

from bursar.adapters.disk.beneath import FOLDER
from bursar.adapters.disk.budgets import Budgets
from bursar.adapters.disk.rounds import Rounds, TreeKey
from bursar.adapters.disk.tree import BLOCK, FolderTree
from bursar.app.storage.ports import DiskCounts, DiskError, DiskUse
from bursar.core.storage.pod import StoragePod
from bursar.core.storage.pressure import Filesystem
from bursar.core.storage.usage import Measure

EMPTY_DIRS: Final = "kubernetes.io~empty-dir"
CONFIG_MAPS: Final = "kubernetes.io~configmap"
LOG_FILES_MAX: Final = 10_000
CONFIG_MAPS_MAX: Final = 1_000
_UID: Final = re.compile(r"[0-9A-Za-z-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskPlaces:
    kubelet: str = "/var/lib/kubelet"
    logs: str = "/var/log/pods"


class Counter(Protocol):
    """A way to measure a volume without a scan, such as project quotas."""

    def measure(self, path: str, pod: StoragePod) -> Measure | None:
        """The size of a volume; None if it has to be scanned."""

    def forget_gone(self) -> int:
        """Release what is kept for volumes that do not exist any more; return their number."""


class NodeDisk:
    """A `Disk`. Scans run in a thread of their own. Use it as a context manager."""

    def __init__(
        self,
        places: DiskPlaces,
        *,
        round_s: float = 8.0,
        counter: Counter | None = None,
        budgets: Budgets | None = None,
    ) -> None:
        self._places, self._round_s, self._counter = places, round_s, counter
        self._stop = threading.Event()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="disk")
        self._rounds = Rounds(self._stop)
        self._budgets = budgets or Budgets()
        self._trees: dict[TreeKey, FolderTree] = {}
        self._counted: set[TreeKey] = set()
        """Volumes that the counter measured in the last round."""
        self._forgotten_looks = 0
        self._rounds_ended = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop.set()
        await asyncio.get_running_loop().run_in_executor(self._thread, self._rounds.close_all)
        self._thread.shutdown()

    @property
    def counts(self) -> DiskCounts:
        return DiskCounts(
            rounds=self._rounds_ended,
            looks=self._forgotten_looks + sum(tree.looks for tree in list(self._trees.values())),
            seconds=self._rounds.seconds,
            folders=self._budgets.folders.used,
            unfinished=self._rounds.unfinished,
        )

    async def measure(self, pods: Sequence[StoragePod]) -> Mapping[str, DiskUse]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._measure, pods)

    def filesystem(self) -> Filesystem:
        # In a pod, only this folder of the kubelet's is mounted.
        folder = f"{self._places.kubelet}/pods"
        try:
            found = os.statvfs(folder)
        except OSError as error:
            raise DiskError(f"{folder}: {error.strerror}") from None
        return Filesystem(
            capacity=found.f_blocks * found.f_frsize,
            available=found.f_bavail * found.f_frsize,
            inodes=found.f_files,
            inodes_free=found.f_ffree,
        )

    # -------------------------------------------------------------- in the thread

    def _measure(self, pods: Sequence[StoragePod]) -> Mapping[str, DiskUse]:
        now_ms = time.monotonic_ns() // 10**6
        until_s = time.monotonic() + self._round_s
        _require_folder(f"{self._places.kubelet}/pods")
        known = {pod.uid: pod for pod in pods if _UID.fullmatch(pod.uid) and not pod.is_ended}
        volumes: dict[TreeKey, str] = {}
        found: dict[str, dict[str, Measure]] = {uid: {} for uid in known}
        for pod in known.values():
            for name, path in self._volumes(pod):
                counted = None if self._counter is None else self._counter.measure(path, pod)
                if counted is None:
                    volumes[pod.uid, name] = path
                else:
                    found[pod.uid][name] = counted
        counted_now = {(uid, name) for uid, names in found.items() for name in names}
        if self._counter is not None and self._counted - counted_now:
            self._counter.forget_gone()
        self._counted = counted_now
        self._follow(volumes)
        errors = self._rounds.run(self._trees, now_ms, until_s)
        now_ms = time.monotonic_ns() // 10**6
        for (uid, name), tree in self._trees.items():
            problem = errors.get((uid, name))
            if problem is None:
                found[uid][name] = tree.measure(now_ms)
            elif Path(tree.path).exists():
                found[uid][name] = Measure(used=0, is_complete=False, problem=problem)
        self._rounds_ended += 1
        return {uid: self._use(pod, found[uid]) for uid, pod in known.items()}

    def _volumes(self, pod: StoragePod) -> Iterator[tuple[str, str]]:
        """Names and paths of the volumes that count as ephemeral storage."""
        folder = f"{self._places.kubelet}/pods/{pod.uid}/volumes"
        for volume in pod.volumes:
            path = f"{folder}/{EMPTY_DIRS}/{volume.name}"
            if volume.is_on_disk and _is_name(volume.name) and Path(path).is_dir():
                yield volume.name, path
        try:
            config_maps = list(islice(Path(folder, CONFIG_MAPS).iterdir(), CONFIG_MAPS_MAX))
        except OSError:
            return
        for each in config_maps:
            yield each.name, str(each)

    def _follow(self, volumes: Mapping[TreeKey, str]) -> None:
        for key in [each for each in self._trees if each not in volumes]:
            self._rounds.close(key)
            tree = self._trees.pop(key)
            self._forgotten_looks += tree.looks
            tree.forget()
        for key, path in volumes.items():
            if key not in self._trees:
                self._trees[key] = FolderTree(path, budgets=self._budgets)

    def _use(self, pod: StoragePod, volumes: Mapping[str, Measure]) -> DiskUse:
        folder = f"{self._places.logs}/{pod.namespace}_{pod.name}_{pod.uid}"
        logs: dict[str, int] = {}
        other = _file_bytes(f"{self._places.kubelet}/pods/{pod.uid}/etc-hosts")
        if _is_name(pod.namespace) and _is_name(pod.name):
            other += _files_bytes(folder)
            for container in _folders(folder):
                logs[container] = _files_bytes(f"{folder}/{container}")
        return DiskUse(volumes=volumes, logs=logs, other=other)


def _is_name(text: str) -> bool:
    """Whether a text of the API is the name of one folder. The API server refuses others."""
    return bool(text) and "/" not in text and "\0" not in text and text not in {".", ".."}


def _require_folder(path: str) -> None:
    try:
        os.close(os.open(path, FOLDER))
    except OSError as error:
        raise DiskError(f"{path}: {error.strerror}") from None


def _file_bytes(path: str) -> int:
    try:
        return os.lstat(path).st_blocks * BLOCK
    except OSError:
        return 0


def _files_bytes(path: str) -> int:
    """Bytes of the files directly in a log folder, as the kubelet counts them."""
    total = 0
    for seen, (entry, is_folder) in enumerate(_entries(path)):
        if seen >= LOG_FILES_MAX:
            break
        if not is_folder:
            try:
                total += entry.stat(follow_symlinks=False).st_blocks * BLOCK
            except OSError:
                continue
    return total


def _folders(path: str) -> list[str]:
    return [entry.name for entry, is_folder in _entries(path) if is_folder][:LOG_FILES_MAX]


def _entries(path: str) -> Iterator[tuple[os.DirEntry[str], bool]]:
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                yield entry, entry.is_dir(follow_symlinks=False)
    except OSError:
        return
