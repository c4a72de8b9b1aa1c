"""Run a Python program as the first process of a virtual machine, with disks of its own.

The machine has a copy of the files that the program loads on this machine, at the same paths. It
needs neither root nor hardware support, and cannot change anything of this machine.
"""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from assets import ensure_packages
from real_node import machine
from support.kernels.project_quotas import RESULTS

SECONDS = 900
"""A quiet machine needs ten seconds, one with many busy processes some minutes."""
EXT4_MIB, XFS_MIB = 64, 320
"""mkfs.xfs makes no smaller filesystem."""
MODULES = (*machine.PORT_MODULES, "quota_v2", "xfs")
MOUNTS = {"proc": "proc", "sysfs": "sys", "devtmpfs": "dev", "tmpfs": "mnt"}
LOADER = "/lib64/ld-linux-x86-64.so.2"
LIST_FILES = """
import json, runpy, sys
runpy.run_path(sys.argv[1], run_name="loaded")
files = {getattr(each, "__file__", None) for each in list(sys.modules.values())}
with open("/proc/self/maps") as maps:
    files |= {line.split(maxsplit=5)[-1].strip() for line in maps if " /" in line}
print(json.dumps(sorted(filter(None, files))))
"""


def run_project_quotas(folder: Path) -> dict[str, Any]:
    """The results of `project_quotas.py` on ext4 and XFS."""
    packages = ensure_packages("vm")
    [busybox] = ensure_packages("node").glob("**/bin/busybox")
    program = Path(__file__).with_name("project_quotas.py").resolve()
    root, console, results = (folder / name for name in ("root", "console", "results"))
    machine.write_base(root, busybox, _init(program), [*_files_of(program), Path(LOADER)])
    (root / "mnt").mkdir()
    machine.write_disk(folder / "disk", root)
    machine.write_initrd(folder / "initrd", packages, busybox, MODULES)
    command = machine.qemu_command(
        packages,
        initrd=folder / "initrd",
        disks=[folder / "disk", *_disks(folder)],
        console=console,
        ports={RESULTS: f"file,path={results}"},
    )
    done = subprocess.run(
        command, check=False, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS
    )
    text = results.read_text() if results.exists() else ""
    said = console.read_text(errors="replace") if console.exists() else ""
    assert text, done.stderr.decode(errors="replace") + said
    found: dict[str, Any] = json.loads(text)
    assert "error" not in found, found["error"]
    return found


def _init(program: Path) -> str:
    """The first program of the machine: it becomes the Python program."""
    variables = {
        "PATH": "/bin",
        "PYTHONHOME": f"{sys.base_prefix}:{sys.base_exec_prefix}",
        "PYTHONPATH": ":".join(path for path in sys.path if path),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUTF8": "1",
    }
    given = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    mounts = [f"mount -t {kind} {kind} /{folder}" for kind, folder in MOUNTS.items()]
    command = shlex.join([os.path.realpath(sys.executable), str(program)])
    lines = ["#!/bin/busybox sh", "/bin/busybox --install -s /bin", *given, *mounts]
    return "\n".join([*lines, f"exec {command}", ""])


def _files_of(program: Path) -> Sequence[Path]:
    """The modules and libraries that the program loads, and the Python that runs it."""
    ran = subprocess.run(
        [sys.executable, "-c", LIST_FILES, str(program)],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": ":".join(path for path in sys.path if path)},
    )
    names = {*json.loads(ran.stdout), str(program), os.path.realpath(sys.executable)}
    files = [Path(name) for name in names if Path(name).is_file()]
    return sorted({*files, *(other for each in files for other in _other_names(each))})


def _other_names(library: Path) -> Iterator[Path]:
    """The names under which a library is looked for: `libffi.so.8` of `libffi.so.8.1.2`."""
    stem, mark, _ = library.name.partition(".so")
    if mark:
        for each in library.parent.glob(f"{stem}.so*"):
            if each.resolve() == library.resolve():
                yield each


def _disks(folder: Path) -> list[Path]:
    """An ext4 and an XFS disk with project quotas, and an ext4 disk without."""
    tools = ensure_packages("xfs")
    disks = [folder / name for name in ("ext4", "xfs", "plain")]
    for disk in disks:
        with disk.open("wb") as file:
            file.truncate((XFS_MIB if disk.name == "xfs" else EXT4_MIB) * 2**20)
    quotas = ("-O", "project,quota", "-E", "quotatype=prjquota")
    _make("mke2fs", "-q", "-F", "-t", "ext4", *quotas, str(disks[0]))
    _make("mke2fs", "-q", "-F", "-t", "ext4", str(disks[2]))
    libraries = ":".join(sorted({str(path.parent) for path in tools.rglob("*.so.*")}))
    [mkfs] = tools.glob("**/sbin/mkfs.xfs")
    _make(str(mkfs), "-q", str(disks[1]), libraries=libraries)
    return disks


def _make(*command: str, libraries: str = "") -> None:
    environment = {**os.environ, **({"LD_LIBRARY_PATH": libraries} if libraries else {})}
    subprocess.run(command, check=True, env=environment)
