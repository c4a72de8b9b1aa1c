"""Run a Python program as the first process of a user-mode Linux, with disks of its own.

The kernel is a process of this machine, and its root is this machine's, read-only. It takes two
seconds, and no rights besides those of its user.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from assets import ensure_packages
from support.kernels.project_quotas import MARK

SECONDS = 300
EXT4_MIB, XFS_MIB = 64, 320
"""mkfs.xfs makes no smaller filesystem."""


def run_project_quotas(folder: Path) -> dict[str, Any]:
    """The results of `project_quotas.py` on ext4 and XFS."""
    packages = ensure_packages("quota")
    [modules] = packages.glob("usr/lib/uml/modules/*/kernel/fs/quota")
    program = Path(__file__).with_name("project_quotas.py").resolve()
    init = folder / "init"
    search = ":".join(path for path in sys.path if path)
    init.write_text(
        f"#!/bin/sh\nPATH=/usr/sbin:/usr/bin:/sbin:/bin PYTHONDONTWRITEBYTECODE=1 "
        f"PYTHONPATH={search} exec {sys.executable} {program} {modules}\n"
    )
    init.chmod(0o755)
    done = subprocess.run(
        [
            *(str(packages / "usr/bin/linux.uml"), "mem=256M", "quiet"),
            *("rootfstype=hostfs", "rootflags=/", "ro", f"init={init}"),
            *("con=null", "con0=null,fd:1", f"uml_dir={folder}/"),
            *(f"ubd{letter}={disk}" for letter, disk in _disks(folder, packages).items()),
        ],
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=SECONDS,
        env={**os.environ, "TMPDIR": str(folder)},
    )
    text = done.stdout.decode(errors="replace")
    assert text.count(MARK) == 2, text + done.stderr.decode(errors="replace")
    results: dict[str, Any] = json.loads(text.split(MARK)[1])
    assert "error" not in results, results["error"]
    return results


def _disks(folder: Path, packages: Path) -> dict[str, Path]:
    disks = {letter: folder / f"disk-{letter}" for letter in "abc"}
    for letter, disk in disks.items():
        with disk.open("wb") as file:
            file.truncate((XFS_MIB if letter == "b" else EXT4_MIB) * 2**20)
    quotas = ("-O", "project,quota", "-E", "quotatype=prjquota")
    _make("mke2fs", "-q", "-F", "-t", "ext4", *quotas, str(disks["a"]))
    _make("mke2fs", "-q", "-F", "-t", "ext4", str(disks["c"]))
    libraries = ":".join(sorted({str(path.parent) for path in packages.rglob("*.so.*")}))
    [mkfs] = packages.glob("**/sbin/mkfs.xfs")
    _make(str(mkfs), "-q", str(disks["b"]), libraries=libraries)
    return disks


def _make(*command: str, libraries: str = "") -> None:
    environment = {**os.environ, **({"LD_LIBRARY_PATH": libraries} if libraries else {})}
    subprocess.run(command, check=True, env=environment)
