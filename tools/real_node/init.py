"""The first process of a real node, in namespaces of its own: mounts, then the node's programs.

It is started by `unshare`, as root, with the path of its settings. It covers what the programs
must not touch, waits until the network is connected, starts the programs and starts those again
that end. All of them die with this process. It imports nothing of the project.
"""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

COVERED = ("/run", "/var/lib", "/var/log")
"""Folders that are empty and in memory inside the node."""
READ_ONLY = (
    "/proc/sys/kernel",
    "/proc/sys/vm",
    "/proc/sys/fs",
    "/sys/fs/cgroup/cgroup.subtree_control",  # of cgroup v2: runc would enable all controllers
)
SYSCTLS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
"""Settings of the whole machine that kubelet would change, with the values that it wants to see."""
POLL_SECONDS = 0.02
MAXIMUM_RESTARTS = 10


def main() -> None:
    settings = json.loads(Path(sys.argv[1]).read_text())
    folder = Path(settings["folder"])
    _mount_all(folder, settings["binds"])
    socket.sethostname(settings["node"])
    while not (folder / "network-is-connected").exists():
        time.sleep(POLL_SECONDS)
    # Only inside: these belong to the network namespace.
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    environment = {
        "PATH": f"{settings['path']}:{os.environ['PATH']}",
        "TMPDIR": "/run/tmp",
        "HOME": "/run",
    }
    programs = Programs(settings["programs"], folder, environment)
    programs.start("containerd")
    programs.wait_for_socket("containerd", settings["containerd_socket"])
    programs.start("kubelet")
    programs.start("kube-proxy")
    programs.keep_running()


class Programs:
    """The programs of the node, by name, with their logs in a folder."""

    def __init__(
        self, commands: dict[str, list[str]], folder: Path, environment: dict[str, str]
    ) -> None:
        self._commands, self._folder, self._environment = commands, folder, environment
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        with (self._folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                self._commands[name],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
            )

    def wait_for_socket(self, name: str, path: str) -> None:
        while self._running[name].poll() is None:
            with socket.socket(socket.AF_UNIX) as line:
                if line.connect_ex(path) == 0:
                    return
            time.sleep(POLL_SECONDS)
        sys.exit(f"{name} ended; its log says why")

    def keep_running(self) -> None:
        """Start a program again when it ends, and take the exit codes of orphans."""
        restarts = 0
        while restarts < MAXIMUM_RESTARTS:
            ended, status = os.wait()
            for name in [name for name, known in self._running.items() if known.pid == ended]:
                print(f"{name} ended with {os.waitstatus_to_exitcode(status)}", flush=True)
                restarts += 1
                self._running[name].returncode = status  # so that nobody waits for it again
                self.start(name)
        sys.exit("a program of the node ended too often")


def _mount_all(folder: Path, binds: dict[str, str]) -> None:
    _mount("--bind", str(folder), str(folder))
    for covered in COVERED:
        _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", covered)
    for outside, inside in binds.items():
        Path(inside).mkdir()
        _mount("--bind", outside, inside)
    for path in ("/run/tmp", "/run/lock", "/var/log/pods"):
        Path(path).mkdir()
    for path in filter(os.path.exists, READ_ONLY):
        _mount("--bind", path, path)
        _mount("-o", "remount,bind,ro", path)
    for number, (name, value) in enumerate(SYSCTLS.items()):
        if Path("/proc/sys", name).exists():
            copy = Path(f"/run/sysctl-{number}")
            copy.write_text(f"{value}\n")
            _mount("--bind", str(copy), f"/proc/sys/{name}")
    _mount("-o", "remount,bind,ro", "/")
    _mount("--make-rshared", "/")


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


if __name__ == "__main__":
    main()
