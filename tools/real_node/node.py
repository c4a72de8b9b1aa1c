"""A node with real containers: kubelet, containerd, runc and kube-proxy, in namespaces of its own.

The node shares this machine's kernel and nothing else that it could change: its processes, mounts,
host name and network are its own, its cgroups are below one folder, this machine's files are
read-only to it, and files that kubelet writes settings of the whole machine to are replaced.
"""

import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from assets import cache_folder
from controlplane import ControlPlane
from program import POLL_SECONDS, STOP_SECONDS, Program, ProgramError
from real_node import RealNodeError, cgroups, settings
from real_node.base import CONTAINERD_SOCKET, Node, import_command, lacking
from real_node.init import COVERED
from real_node.network import NodeNetwork

INIT = Path(__file__).with_name("init.py")
NAME = "real-0"
COMMANDS = ("unshare", "nsenter", "mount")
NAMESPACES = ("--mount", "--net", "--pid", "--ipc", "--uts", "--fork", "--mount-proc")


def missing() -> str | None:
    """Why this machine cannot run a real node, in one line, or None if it can."""
    problem = lacking("a real node", COMMANDS)
    if problem:
        return problem
    tried = subprocess.run(["unshare", *NAMESPACES, "true"], capture_output=True, check=False)
    if tried.returncode != 0:
        return "a real node takes namespaces, and `unshare` may not make them here"
    if any(cache_folder().resolve().is_relative_to(covered) for covered in COVERED):
        return f"a real node covers {', '.join(COVERED)}: set BURSAR_CACHE to another folder"
    asked = ["stat", "-f", "-c", "%T", tempfile.gettempdir()]
    kind = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    if kind == "overlayfs":
        return "a real node takes a disk that is no overlay: set TMPDIR to a folder on another one"
    return cgroups.missing()


class RealNode(Node):
    """A node in namespaces of this machine, with its pods in this machine's cgroups.

    `kubelet_folder` is its `/var/lib/kubelet`, seen from outside: `pod-resources/kubelet.sock` and
    `device-plugins/` are there.
    """

    def __init__(self, plane: ControlPlane, network: NodeNetwork) -> None:
        own_cgroup = cgroups.NodeCgroup(f"bursar-node-{network.number}")
        super().__init__(plane, network, NAME, own_cgroup, settings.machine_abilities())
        self._own_cgroup = own_cgroup
        self.kubelet_folder = self.folder / "kubelet"
        self._init = self._init_program()

    def _boot(self) -> None:
        self._own_cgroup.make()
        self._init.start()
        self._connect()
        self._init.wait_ready()

    def stop(self) -> None:
        """Kill everything on the node, and remove its cgroups, its link and its files."""
        with _end_awaited(self._first_process()):
            self._init.kill()
        self.network.disconnect()
        self._own_cgroup.remove()
        shutil.rmtree(self.folder, ignore_errors=True)

    def import_image(self, archive: Path) -> None:
        import_archive(self.plane.folder, archive)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        inside = ["nsenter", f"--target={self._init.pid}", "--mount", "--net", "--uts", "--ipc"]
        path = f"{self._places.bin_folder}:{os.environ['PATH']}"
        return _checked([*inside, *command], {"PATH": path})

    @property
    def root(self) -> Path:
        """The node's root folder, seen from outside. Links in it lead to this machine's files."""
        return Path(f"/proc/{self._first_process()}/root")

    # -------------------------------------------------------------- inside

    def _init_program(self) -> Program:
        command = ["unshare", *NAMESPACES, "--kill-child=SIGKILL", sys.executable, "-I"]
        command += [str(INIT), str(self.folder / "init.json")]
        log = self.plane.folder / f"{self.name}.log"
        return Program(self.name, command, log=log, is_ready=self._is_ready)

    def _write_files(self) -> None:
        super()._write_files()
        for name in ("containerd", "kubelet"):
            (self.folder / name).mkdir()
        self._write_json(
            "init.json", settings.init_settings(self._places, self.name, self._commands)
        )

    def _connect(self) -> None:
        """Join the node's network namespace, once there is one, and tell the node."""
        ours = Path("/proc/self/ns/net").readlink()
        while (first := self._first_process()) is None or _network_of(first) == ours:
            if not self._init.is_running:
                raise ProgramError(f"{self.name} ended by itself:\n{self._init.log_end()}")
            select.select([], [], [], POLL_SECONDS)
        self.network.connect(first)
        (self.folder / "network-is-connected").touch()

    def _first_process(self) -> int | None:
        """The node's first process, as a number of this machine: the child of `unshare`."""
        unshare = self._init.pid
        if unshare is None:
            return None
        try:
            children = Path(f"/proc/{unshare}/task/{unshare}/children").read_text().split()
        except OSError:  # it has just ended
            return None
        return int(children[0]) if children else None


def socket_path(plane_folder: Path) -> Path:
    """The socket of containerd on the real node of a control plane."""
    return plane_folder / NAME / CONTAINERD_SOCKET


def import_archive(plane_folder: Path, archive: Path) -> None:
    """Give the images of an OCI archive to the real node of a control plane."""
    _checked(import_command(socket_path(plane_folder), str(archive)), {})


def _network_of(pid: int) -> Path | None:
    try:
        return Path(f"/proc/{pid}/ns/net").readlink()
    except OSError:
        return None


@contextmanager
def _end_awaited(first: int | None) -> Iterator[None]:
    """Wait for the first process of a node, which ends after all others of its namespace."""
    if first is None:
        yield
        return
    watched = os.pidfd_open(first)
    try:
        yield
        if not select.select([watched], [], [], STOP_SECONDS)[0]:
            raise RealNodeError(f"processes of the node did not end in {STOP_SECONDS} s")
    finally:
        os.close(watched)


def _checked(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    if done.returncode != 0:
        raise RealNodeError(f"{Path(command[0]).name} failed: {done.stderr.strip()}")
    return done
