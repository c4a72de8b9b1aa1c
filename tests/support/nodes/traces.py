"""What this machine shows of a real node while it runs, and must not show afterwards."""

import json
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from assets import ROOT
from real_node.cgroups import hierarchies
from support.until import PATIENCE_SECONDS

NO_TESTS = 5
"""The exit code of pytest if all tests are left out."""
CLUSTER = [sys.executable, str(ROOT / "tools" / "cluster.py"), "--nodes", "0", "--node"]
AS_NOBODY = """
import os, sys
from cluster import main
if os.geteuid() == 0:
    os.seteuid(65534)
sys.exit(main())
"""


@contextmanager
def made_cluster(kind: str, said: Path) -> Iterator[Path]:
    """The kubeconfig of `make cluster NODE=kind`, whose node is ready; ended by Ctrl-C."""
    with said.open("w") as file:
        process = subprocess.Popen([*CLUSTER, kind], stdout=subprocess.PIPE, stderr=file, text=True)
    assert process.stdout is not None
    with process, process.stdout:
        try:
            kubeconfig = process.stdout.readline().strip()
            assert kubeconfig, said.read_text()
            yield Path(kubeconfig)
        finally:
            process.send_signal(signal.SIGINT)
            code = process.wait(timeout=PATIENCE_SECONDS)
    assert code == 0, said.read_text()


def run_as_nobody(kind: str) -> subprocess.CompletedProcess[str]:
    """Run `make cluster NODE=kind` without root."""
    return subprocess.run(
        [sys.executable, "-c", AS_NOBODY, "--node", kind],
        env={"PYTHONPATH": str(ROOT / "tools")},
        capture_output=True,
        text=True,
        check=False,
    )


def run_test_without_commands(
    test: str, folder: Path, in_ci: str
) -> subprocess.CompletedProcess[str]:
    """Run pytest where no command but `go` is on PATH; `in_ci` is the value of the variable CI."""
    go = shutil.which("go")
    assert go is not None
    (folder / "go").symlink_to(go)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", test],
        cwd=ROOT,
        env={"PATH": str(folder), "HOME": str(folder), "CI": in_ci},
        capture_output=True,
        text=True,
        check=False,
    )


class NodeTraces:
    """Everything of a node that this machine shows, found by its network and its folder."""

    def __init__(self, kubeconfig: Path) -> None:
        self.folder = kubeconfig.parent
        [cluster] = json.loads(kubeconfig.read_text())["clusters"]
        address = urlsplit(cluster["cluster"]["server"]).hostname
        assert address is not None
        self._number = int(address.split(".")[2]) // 4

    def seen(self) -> dict[str, list[str]]:
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        prefix = f"198.18.{4 * self._number}.0/22"
        routes = subprocess.run(
            ["ip", "route", "show", "table", "all", "root", prefix],
            capture_output=True,
            text=True,
            check=True,
        )
        bridge, folder = f"bursar{self._number}", self.folder.name
        cgroup = f"bursar-node-{self._number}"
        return {
            "links": sorted({bridge, f"{bridge}n"} & link_names()),
            "routes": routes.stdout.splitlines(),
            "cgroups": [str(path) for root in hierarchies() for path in root.glob(cgroup)],
            "mounts": [line for line in mounts if folder in line],
            "processes": [line for _, line in command_lines() if folder in line],
            "files": [str(self.folder)] if self.folder.exists() else [],
        }


def link_names() -> set[str]:
    return {name for _, name in socket.if_nameindex()}


def command_lines() -> list[tuple[Path, str]]:
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            command = (path / "cmdline").read_bytes().replace(b"\0", b" ")
        except OSError:
            continue
        found.append((path, command.decode(errors="replace")))
    return found
