"""What all nodes with real containers have: programs, what these are told, and the way to start."""

import http.client
import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from assets import ensure, ensure_packages
from certificates import Pair
from controlplane import ControlPlane
from program import ProgramError
from real_node import RealNodeError, settings
from real_node.cgroups import Cgroup
from real_node.images import write_busybox_image, write_pause_image
from real_node.network import NodeNetwork

PROGRAMS = ("kubelet", "kube-proxy", "containerd", "containerd-shim-runc-v2", "runc", "ctr")
COMMANDS = ("ip", "apt-get", "dpkg-deb", "gcc")
"""All but the first are for programs that are not built from Go alone."""
CONTAINERD_SOCKET = "containerd.sock"
"""Its path below the node's folder, which is in that of the control plane."""
PROXY_HEALTH_PORT = 10256


def lacking(what: str, commands: tuple[str, ...]) -> str | None:
    """Why this machine cannot run such a node, in one line; None if it has root and the commands.

    `what` is the first words of the line, for example `a real node`.
    """
    if not sys.platform.startswith("linux"):
        return f"{what} takes Linux"
    if os.geteuid() != 0:
        return f"{what} takes root"
    for command in (*commands, *COMMANDS):
        if shutil.which(command) is None:
            return f"{what} takes `{command}`, which is not on PATH"
    return None


class Node(ABC):
    """One node of a control plane whose API server listens on the network's `host_address`.

    `name` is the name of its Node object. `cgroup` is where its pods are in the cgroups that its
    kernel has.
    """

    def __init__(
        self,
        plane: ControlPlane,
        network: NodeNetwork,
        name: str,
        cgroup: Cgroup,
        abilities: settings.KernelAbilities,
    ) -> None:
        self.name, self.plane, self.network, self.cgroup = name, plane, network, cgroup
        self.folder = plane.folder / name
        packages = ensure_packages("node")
        [self._busybox] = packages.glob("**/bin/busybox")  # releases differ in the folder
        self._programs = {name: ensure(name) for name in PROGRAMS}
        self._pause = ensure("pause")
        self._places = settings.NodePlaces(
            bin_folder=self.folder / "bin",
            cni_programs=packages / "usr" / "lib" / "cni",
            containerd_socket=self.folder / CONTAINERD_SOCKET,
            folder=self.folder,
        )
        self._packages = packages
        self.abilities = abilities
        self._commands: dict[str, list[str]] = {}
        self._credentials: list[Path] = []
        """Certificates, keys and kubeconfigs that the programs are told of."""

    def start(self) -> None:
        """Start the node, and wait until it is Ready, its Services work and it has its images."""
        try:
            shutil.rmtree(self.folder, ignore_errors=True)
            self._write_files()
            self._boot()
            self.import_image(write_pause_image(self.folder / "pause.tar", self._pause))
            self.import_image(write_busybox_image(self.folder / "busybox.tar", self._busybox))
        except ProgramError as error:
            logs = [f"{name}:\n{self.log_end(name)}" for name in ("containerd", "kubelet")]
            self.stop()
            raise RealNodeError("\n".join([str(error), *logs])) from error
        except BaseException:
            self.stop()
            raise

    @abstractmethod
    def _boot(self) -> None:
        """Start the programs with the files that are written, and wait until the node is Ready."""

    @abstractmethod
    def stop(self) -> None:
        """Kill everything on the node, and remove its link, its files and whatever else it has."""

    @abstractmethod
    def import_image(self, archive: Path) -> None:
        """Give the images of an OCI archive to the node.

        Pods name them as the archive does, with `imagePullPolicy: IfNotPresent` or `Never`, which
        they need if the tag is `latest`.
        """

    @abstractmethod
    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the node's mounts and network, as a program of the node would."""

    def log_end(self, program: str, lines: int = 20) -> str:
        """The end of the log of `containerd`, `kubelet` or `kube-proxy`."""
        log = self.folder / f"{program}.log"
        text = log.read_text(errors="replace") if log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    # -------------------------------------------------------------- what the programs are told

    def _write_files(self) -> None:
        for name in ("bin", "cni"):
            (self.folder / name).mkdir(parents=True)
        for name, program in self._programs.items():
            (self._places.bin_folder / name).symlink_to(program)
        _write_nft(self._places.bin_folder / "nft", self._packages)
        (self.folder / "resolv.conf").touch()
        (self.folder / "containerd.toml").write_text(
            settings.containerd_config(self._places, self._programs["runc"], self.abilities)
        )
        self._write_json("cni/pods.conflist", settings.cni_config(self.network))
        self._write_json("kubelet.json", self._kubelet_config())
        proxy = self._kubeconfig("kube-proxy", "system:kube-proxy")
        self._write_json(
            "kube-proxy.json", settings.kube_proxy_config(self.network, self.name, proxy)
        )
        self._commands = self._program_commands()

    def _program_commands(self) -> dict[str, list[str]]:
        programs = {name: str(path) for name, path in self._programs.items()}
        kubeconfig = self._kubeconfig("kubelet", f"system:node:{self.name}", "system:nodes")
        return {
            "containerd": [programs["containerd"], f"--config={self.folder / 'containerd.toml'}"],
            "kubelet": [
                programs["kubelet"],
                f"--config={self.folder / 'kubelet.json'}",
                f"--kubeconfig={kubeconfig}",
                f"--hostname-override={self.name}",
                f"--node-ip={self.network.node_address}",
                f"--root-dir={settings.KUBELET_FOLDER}",
            ],
            "kube-proxy": [programs["kube-proxy"], f"--config={self.folder / 'kube-proxy.json'}"],
        }

    def _kubeconfig(self, program: str, user: str, *groups: str) -> Path:
        pair = self._kept(self.plane.client(user, *groups))
        path = self.plane.write_kubeconfig(f"{self.name}-{program}", pair)
        self._credentials.append(path)
        return path

    def _kubelet_config(self) -> dict[str, Any]:
        certificate = self.plane.server_certificate(
            f"{self.name}-kubelet", self.network.node_address
        )
        serving = self._kept(certificate)
        authority = self.plane.authority_certificate
        self._credentials.append(authority)
        return settings.kubelet_config(
            self._places, self.cgroup.root, authority, serving.certificate, serving.key
        )

    def _kept(self, pair: Pair) -> Pair:
        self._credentials += [pair.certificate, pair.key]
        return pair

    def _write_json(self, name: str, content: object) -> None:
        (self.folder / name).write_text(json.dumps(content, indent=2))

    # -------------------------------------------------------------- whether it is ready

    def _is_ready(self) -> bool:
        status, body = self.plane.request("GET", f"/api/v1/nodes/{self.name}")
        if status != http.client.OK:
            return False
        conditions = json.loads(body)["status"].get("conditions", [])
        ready = any((c["type"], c["status"]) == ("Ready", "True") for c in conditions)
        return ready and self._proxy_is_healthy()

    def _proxy_is_healthy(self) -> bool:
        url = f"http://{self.network.node_address}:{PROXY_HEALTH_PORT}/healthz"
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=5):
                return True
        except (urllib.error.URLError, OSError):
            return False


def import_command(containerd_socket: Path, archive: str) -> list[str]:
    """The command that gives an archive to a containerd that serves a kubelet; `-` is its input."""
    socket = ["--address", str(containerd_socket), "--namespace", "k8s.io"]
    return [str(ensure("ctr")), *socket, "images", "import", archive]


def _write_nft(path: Path, packages: Path) -> None:
    """Let kube-proxy find `nft`, and `nft` its libraries."""
    libraries = ":".join(sorted({str(file.parent) for file in packages.glob("**/*.so.*")}))
    program = packages / "usr" / "sbin" / "nft"
    path.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH="{libraries}" exec "{program}" "$@"\n')
    path.chmod(0o755)
