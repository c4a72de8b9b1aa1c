"""A node with real containers: kubelet, containerd, runc and kube-proxy, in namespaces of its own.

The node shares this machine's kernel and nothing else that it could change: its processes, mounts,
host name and network are its own, its cgroups are below one folder, this machine's files are
read-only to it, and files that kubelet writes settings of the whole machine to are replaced.
"""

import http.client
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from assets import cache_folder, ensure, ensure_packages
from controlplane import ControlPlane
from program import POLL_SECONDS, STOP_SECONDS, Program, ProgramError
from real_node import RealNodeError, cgroups, settings
from real_node.images import write_busybox_image, write_pause_image
from real_node.init import COVERED
from real_node.network import NodeNetwork

INIT = Path(__file__).with_name("init.py")
NAME = "real-0"
CONTAINERD_SOCKET = "containerd.sock"
"""Its path below the node's folder, which is in that of the control plane."""
PROGRAMS = ("kubelet", "kube-proxy", "containerd", "containerd-shim-runc-v2", "runc", "ctr")
COMMANDS = ("unshare", "nsenter", "mount", "ip", "apt-get", "dpkg-deb", "gcc")
"""The last three are for programs that are not built from Go alone."""
NAMESPACES = ("--mount", "--net", "--pid", "--ipc", "--uts", "--fork", "--mount-proc")
PROXY_HEALTH_PORT = 10256


def missing() -> str | None:
    """Why this machine cannot run a real node, in one line, or None if it can."""
    if not sys.platform.startswith("linux"):
        return "a real node takes Linux"
    if os.geteuid() != 0:
        return "a real node takes root"
    for command in COMMANDS:
        if shutil.which(command) is None:
            return f"a real node takes `{command}`, which is not on PATH"
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


class RealNode:
    """One node of a control plane whose API server listens on the network's `host_address`.

    `name` is the name of its Node object. `kubelet_folder` is its `/var/lib/kubelet`, seen from
    outside: `pod-resources/kubelet.sock` and `device-plugins/` are there. `cgroup` is where its
    pods are in this machine's cgroups.
    """

    def __init__(self, plane: ControlPlane, network: NodeNetwork, *, name: str = NAME) -> None:
        self.name, self.plane, self.network = name, plane, network
        self.folder = plane.folder / name
        self.kubelet_folder = self.folder / "kubelet"
        self.cgroup = cgroups.NodeCgroup(f"bursar-node-{network.number}")
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
        self._init = self._init_program()

    def start(self) -> None:
        """Start the node, and wait until it is Ready, its Services work and it has its images."""
        try:
            self.cgroup.make()
            self._write_files()
            self._init.start()
            self._connect()
            self._init.wait_ready()
            self.import_image(write_pause_image(self.folder / "pause.tar", self._pause))
            self.import_image(write_busybox_image(self.folder / "busybox.tar", self._busybox))
        except ProgramError as error:
            logs = [f"{name}:\n{self.log_end(name)}" for name in ("containerd", "kubelet")]
            self.stop()
            raise RealNodeError("\n".join([str(error), *logs])) from error
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Kill everything on the node, and remove its cgroups, its link and its files."""
        with _end_awaited(self._first_process()):
            self._init.kill()
        self.network.disconnect()
        self.cgroup.remove()
        shutil.rmtree(self.folder, ignore_errors=True)

    def import_image(self, archive: Path) -> None:
        """Give the images of an OCI archive to the node.

        Pods name them as the archive does, with `imagePullPolicy: IfNotPresent` or `Never`, which
        they need if the tag is `latest`.
        """
        import_archive(self._places.containerd_socket, archive)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the node's mounts and network, as a program of the node would."""
        inside = ["nsenter", f"--target={self._init.pid}", "--mount", "--net", "--uts", "--ipc"]
        path = f"{self._places.bin_folder}:{os.environ['PATH']}"
        return _checked([*inside, *command], {"PATH": path})

    @property
    def root(self) -> Path:
        """The node's root folder, seen from outside. Links in it lead to this machine's files."""
        return Path(f"/proc/{self._first_process()}/root")

    def log_end(self, program: str, lines: int = 20) -> str:
        """The end of the log of `containerd`, `kubelet` or `kube-proxy`."""
        log = self.folder / f"{program}.log"
        text = log.read_text(errors="replace") if log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    # -------------------------------------------------------------- inside

    def _init_program(self) -> Program:
        command = ["unshare", *NAMESPACES, "--kill-child=SIGKILL", sys.executable, "-I"]
        command += [str(INIT), str(self.folder / "init.json")]
        log = self.plane.folder / f"{self.name}.log"
        return Program(self.name, command, log=log, is_ready=self._is_ready)

    def _write_files(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        for name in ("bin", "cni", "containerd", "kubelet"):
            (self.folder / name).mkdir(parents=True)
        for name, program in self._programs.items():
            (self._places.bin_folder / name).symlink_to(program)
        _write_nft(self._places.bin_folder / "nft", self._packages)
        (self.folder / "resolv.conf").touch()
        runc = self._programs["runc"]
        (self.folder / "containerd.toml").write_text(settings.containerd_config(self._places, runc))
        self._write_json("cni/pods.conflist", settings.cni_config(self.network))
        self._write_json("kubelet.json", self._kubelet_config())
        proxy = self._kubeconfig("kube-proxy", "system:kube-proxy")
        self._write_json(
            "kube-proxy.json", settings.kube_proxy_config(self.network, self.name, proxy)
        )
        self._write_json(
            "init.json", settings.init_settings(self._places, self.name, self._commands())
        )

    def _commands(self) -> dict[str, list[str]]:
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
        pair = self.plane.client(user, *groups)
        return self.plane.write_kubeconfig(f"{self.name}-{program}", pair)

    def _kubelet_config(self) -> dict[str, Any]:
        serving = self.plane.server_certificate(f"{self.name}-kubelet", self.network.node_address)
        return settings.kubelet_config(
            self._places,
            self.cgroup.root,
            self.plane.authority_certificate,
            serving.certificate,
            serving.key,
        )

    def _write_json(self, name: str, content: object) -> None:
        (self.folder / name).write_text(json.dumps(content, indent=2))

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


def import_archive(containerd_socket: Path, archive: Path) -> None:
    """Give the images of an OCI archive to a containerd that serves a kubelet."""
    socket = ["--address", str(containerd_socket), "--namespace", "k8s.io"]
    _checked([str(ensure("ctr")), *socket, "images", "import", str(archive)], {})


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


def _write_nft(path: Path, packages: Path) -> None:
    """Let kube-proxy find `nft`, and `nft` its libraries."""
    libraries = ":".join(sorted({str(file.parent) for file in packages.glob("**/*.so.*")}))
    program = packages / "usr" / "sbin" / "nft"
    path.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH="{libraries}" exec "{program}" "$@"\n')
    path.chmod(0o755)


def _checked(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    if done.returncode != 0:
        raise RealNodeError(f"{Path(command[0]).name} failed: {done.stderr.strip()}")
    return done
