"""A node with real containers in a virtual machine, which has a kernel of its own with cgroup v2.

Its programs are told the same as those of `node.RealNode`. Their files have the same paths in the
machine as on this one.
"""

import platform
import shlex
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

from assets import ensure_packages
from controlplane import ControlPlane
from program import Program
from real_node import RealNodeError, machine, settings
from real_node.base import CONTAINERD_SOCKET, Node, import_command, lacking
from real_node.cgroups import WholeCgroup
from real_node.channel import GuestChannel
from real_node.network import NodeNetwork

NAME = "vm-0"
TUN = Path("/dev/net/tun")
READY_SECONDS = 900
"""A quiet machine needs a minute at most, one with ten busy processes on two cores ten."""
CLOSE_SECONDS = 30
"""After that the machine is ended with open connections."""


def missing(*, architecture: str = platform.machine(), tun: Path = TUN) -> str | None:
    """Why this machine cannot run a node in a virtual machine, in one line, or None if it can."""
    what = "a node in a virtual machine"
    if architecture != "x86_64":
        return f"{what} takes an x86_64 machine, and this one is {architecture}"
    problem = lacking(what, ("mke2fs", "apt-cache"))
    if problem:
        return problem
    try:
        tun.open("rb").close()
    except OSError:
        return f"{what} takes a tap device, and {tun} cannot be opened"
    return None


class VirtualNode(Node):
    """A node in a virtual machine. All of it ends with the process of qemu."""

    def __init__(self, plane: ControlPlane, network: NodeNetwork) -> None:
        super().__init__(plane, network, NAME, WholeCgroup(), settings.KernelAbilities())
        self._machine_packages = ensure_packages("vm")
        self._channel = GuestChannel(socket_path(plane.folder))
        self._machine_folder = self._channel.path.parent
        self._qemu: Program | None = None
        self._has_connections = False

    def _boot(self) -> None:
        folder = self._machine_folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        self._write_machine(folder)
        self._qemu = self._qemu_program(folder, self.network.connect_tap())
        self._qemu.start()
        self._qemu.wait_ready(READY_SECONDS)
        self._has_connections = True

    def stop(self) -> None:
        """Kill the machine, and remove its link and its files."""
        if self._qemu is not None:
            self._close_connections()
            self._qemu.kill()
        self.network.disconnect()
        for folder in (self._machine_folder, self.folder):
            shutil.rmtree(folder, ignore_errors=True)

    def import_image(self, archive: Path) -> None:
        import_archive(self.plane.folder, archive)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return self._channel.run(command)

    # -------------------------------------------------------------- the machine

    def _close_connections(self) -> None:
        """Kill the clients of the API server, which otherwise waits for them when it is stopped.

        The other end of a connection does not learn that a machine has gone.
        """
        if self._has_connections:
            clients = " ".join(self._programs[name].name for name in ("kubelet", "kube-proxy"))
            script = (
                f"killall -9 {clients}; echo 1 >{self.cgroup.folder('pids')}/kubepods/cgroup.kill"
            )
            with suppress(RealNodeError):
                self._channel.run(["sh", "-c", script], seconds=CLOSE_SECONDS)
        self._has_connections = False

    def _write_machine(self, folder: Path) -> None:
        root = folder / "root"
        files = [self.folder, self._packages, *self._programs.values(), *self._credentials]
        machine.write_root(root, self._machine_packages, self._busybox, files)
        told = {
            "NODE": self.name,
            "ADDRESS": self.network.node_address,
            "GATEWAY": self.network.host_address,
            "CONTAINERD_SOCKET": str(self._places.containerd_socket),
        }
        lines = [f"{name}={shlex.quote(value)}\n" for name, value in told.items()]
        (root / "etc" / "node" / "settings").write_text("".join(lines))
        for name, command in self._commands.items():
            script = root / "etc" / "node" / name
            path = f"PATH={self._places.bin_folder}:$PATH"
            script.write_text(f"#!/bin/sh\n{path} exec {shlex.join(command)}\n")
            script.chmod(0o755)
        machine.write_disk(folder / "disk", root)
        machine.write_initrd(folder / "initrd", self._machine_packages, self._busybox)
        shutil.rmtree(root)

    def _qemu_program(self, folder: Path, tap: str) -> Program:
        log = self.plane.folder / f"{self.name}.log"
        logs = {name: f"file,path={self.folder / name}.log" for name in self._commands}
        command = machine.qemu_command(
            self._machine_packages,
            initrd=folder / "initrd",
            disks=[folder / "disk"],
            tap=tap,
            console=log,
            ports={**logs, "shell": f"socket,server=on,wait=off,path={self._channel.path}"},
        )
        return Program(self.name, command, log=log, is_ready=self._is_ready)


def socket_path(plane_folder: Path) -> Path:
    """The socket of commands for the virtual machine of a control plane."""
    return plane_folder / f"{NAME}-machine" / "shell.sock"


def import_archive(plane_folder: Path, archive: Path) -> None:
    """Give the images of an OCI archive to the node in the virtual machine of a control plane."""
    command = import_command(plane_folder / NAME / CONTAINERD_SOCKET, "-")
    GuestChannel(socket_path(plane_folder)).run(command, archive)
