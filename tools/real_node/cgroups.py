"""One folder in every cgroup hierarchy of this machine, below which a real node has its pods."""

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from real_node import RealNodeError

ROOT = Path("/sys/fs/cgroup")
NEEDED = ("cpu", "cpuset", "memory", "pids")
NEEDED_V1 = (*NEEDED, "cpuacct", "devices", "freezer")
INHERITED = ("cpuset.cpus", "cpuset.mems")
"""A cpuset of cgroup v1 takes no process before these have a value."""
WEIGHTS = {"cpu.shares": 16 * 1024, "cpu.weight": 16 * 100}
"""By file, of cgroup v1 and v2: the node's part of the CPU. With the default, all pods together
would get as much as one of the many sessions on a busy machine, and webhooks would not answer."""
EMPTY_SECONDS = 60
POLL_SECONDS = 0.05


class Cgroup(Protocol):
    """Where the pods of a node are in the cgroups that its kernel has."""

    root: str
    """What kubelet is told."""

    @property
    def is_v1(self) -> bool:
        """Whether the kernel has cgroup v1; otherwise v2."""

    def folder(self, controller: str) -> Path:
        """Where the node's cgroup is for a controller: `cpu`, `memory`, ... A path on the node."""


class NodeCgroup:
    """The folder of one node, named alike in every hierarchy of this machine."""

    def __init__(self, name: str) -> None:
        self.root = f"/{name}"
        self._folders = [hierarchy / name for hierarchy in hierarchies()]

    def make(self) -> None:
        self.remove()
        for folder in self._folders:
            folder.mkdir()
            for name in INHERITED if is_v1() else ():
                if (folder / name).exists() and (folder.parent / name).exists():
                    (folder / name).write_text((folder.parent / name).read_text())
            for name, weight in WEIGHTS.items():
                if (folder / name).exists():
                    (folder / name).write_text(str(weight))

    def remove(self) -> None:
        """Remove the folder everywhere, with what is below. Its processes must have been killed."""
        for folder in self._folders:
            deadline = time.monotonic() + EMPTY_SECONDS
            while not _is_removed(folder):
                if time.monotonic() > deadline:
                    raise RealNodeError(f"processes are left in {folder}")
                time.sleep(POLL_SECONDS)

    @property
    def is_v1(self) -> bool:
        return is_v1()

    def folder(self, controller: str) -> Path:
        return (ROOT / controller if is_v1() else ROOT) / self.root.lstrip("/")


class WholeCgroup:
    """The root of cgroup v2, for a node that has a kernel of its own."""

    root = "/"
    is_v1 = False

    def folder(self, controller: str) -> Path:  # noqa: ARG002 - v2 has one folder for all
        return ROOT


def is_v1() -> bool:
    """Cgroup v2 has this file in its root; v1 has a folder for every hierarchy there."""
    return not (ROOT / "cgroup.controllers").exists()


def hierarchies() -> list[Path]:
    """The roots of all hierarchies, each once: `cpu` and `cpuacct` may be one."""
    if not is_v1():
        return [ROOT]
    found = {path.resolve() for path in ROOT.iterdir() if (path / "cgroup.procs").exists()}
    return sorted(found)


def missing() -> str | None:
    """Why this machine's cgroups cannot hold a node, in one line, or None if they can."""
    if not ROOT.is_dir():
        return f"no cgroups ({ROOT} does not exist)"
    if is_v1():
        lacking = [name for name in NEEDED_V1 if not (ROOT / name / "cgroup.procs").exists()]
        unwritable = [path for path in hierarchies() if not os.access(path, os.W_OK)]
    else:
        # To enable more of them here would change the cgroups of others.
        enabled = (ROOT / "cgroup.subtree_control").read_text().split()
        lacking = [name for name in NEEDED if name not in enabled]
        unwritable = [] if os.access(ROOT, os.W_OK) else [ROOT]
    if lacking:
        return f"no cgroup controllers {', '.join(lacking)} below {ROOT}"
    return f"cgroups are read-only in {unwritable[0]}" if unwritable else None


def _is_removed(folder: Path) -> bool:
    """Remove the folder and those below it. False if one of them is still in use."""
    if not folder.exists():
        return True
    for below, _, _ in os.walk(folder, topdown=False):
        with suppress(OSError):
            Path(below).rmdir()
    return not folder.exists()
