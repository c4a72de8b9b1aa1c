"""Wheels: downloaded by pip as the lock file says, and unpacked as pip would install them."""

import csv
import email.parser
import hashlib
import io
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from calendar import timegm
from configparser import ConfigParser
from dataclasses import dataclass
from email.message import Message
from functools import cached_property
from pathlib import Path
from typing import Final

from image_parts.tree import File, ImageError, Tree, UnavailableError

ROOT: Final = Path(__file__).parents[2]
LOCKED: Final = (
    "--no-deps",
    "--only-binary=:all:",
    "--require-hashes",
    "--requirement=requirements/runtime.txt",
)
"""Options of pip. The Dockerfile has the same."""
MACHINES: Final = {"amd64": "x86_64", "arm64": "aarch64"}
GLIBC_MINOR_MAX: Final = 36
"""The glibc of the image is 2.36; wheels may ask for less."""
GLIBC_MINOR_MIN: Final = 17
NEEDLESS: Final = re.compile(
    r".*\.(pyi|pyx|pxd|c|cc|h|hpp)|(.*/)?tests?/.*|[^/]+\.data/data/share/man/.*"
)
"""Files of wheels that no running program reads."""


@dataclass(frozen=True)
class Wheel:
    path: Path

    @cached_property
    def metadata(self) -> Message:
        with zipfile.ZipFile(self.path) as wheel:
            text = wheel.read(f"{self.information}/METADATA").decode()
        return email.parser.HeaderParser().parsestr(text)

    @cached_property
    def information(self) -> str:
        """The folder of the wheel that describes it."""
        with zipfile.ZipFile(self.path) as wheel:
            tops = {name.split("/")[0] for name in wheel.namelist()}
        (found,) = [top for top in tops if top.endswith(".dist-info")]
        return found

    @property
    def name(self) -> str:
        """The name as registries write it."""
        return re.sub(r"[-_.]+", "-", self.metadata["Name"]).lower()

    @property
    def version(self) -> str:
        return str(self.metadata["Version"])

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.path.read_bytes()).hexdigest()


def locked_wheels(cache: Path, architecture: str, python: str) -> list[Wheel]:
    """Download the wheels of requirements/runtime.txt; sorted by name."""
    locked = (ROOT / "requirements/runtime.txt").read_bytes()
    key = hashlib.sha256(locked + repr(LOCKED).encode()).hexdigest()[:16]
    folder = cache / f"wheels-{python}-{architecture}-{key}"
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            fetched = Path(scratch) / "wheels"
            _pip("download", *LOCKED, *_target(architecture, python), "--dest", str(fetched))
            try:
                fetched.rename(folder)
            except OSError:  # Another build was faster.
                assert folder.exists()
    wheels = [Wheel(path) for path in folder.glob("*.whl")]
    for wheel in wheels:
        if f"sha256:{wheel.sha256}".encode() not in locked:
            raise ImageError(f"{wheel.path} is not what requirements/runtime.txt locks; remove it")
    return sorted(wheels, key=lambda wheel: wheel.name)


def own_wheel(into: Path, epoch: int) -> Wheel:
    """Build Bursar's own wheel."""
    options = ("--no-deps", "--no-build-isolation", "--wheel-dir", str(into))
    _pip("wheel", *options, str(ROOT), SOURCE_DATE_EPOCH=str(epoch))
    (built,) = into.glob("bursar-*.whl")
    return Wheel(built)


def unpacked(wheel: Wheel, site: str) -> tuple[Tree, int]:
    """The files of a wheel in a folder for packages, and the time of the newest of them."""
    tree: Tree = {}
    newest = 0
    with zipfile.ZipFile(wheel.path) as archive:
        for info in archive.infolist():
            newest = max(newest, timegm((*info.date_time, 0, 0, 0)))
            if info.is_dir() or NEEDLESS.fullmatch(info.filename):
                continue
            if info.filename.split("/")[0].endswith(".data"):
                raise ImageError(f"{wheel.path.name} has files for other places: {info.filename}")
            data = archive.read(info)
            if info.filename == f"{wheel.information}/RECORD":
                data = _record(data.decode())
            tree[f"{site}/{info.filename}"] = File(data)
    tree[f"{site}/{wheel.information}/INSTALLER"] = File(b"bursar-image\n")
    return tree, newest


def commands(wheel: Wheel) -> Tree:
    """The program that a wheel declares under its own name.

    Those that are for kubectl are of no use in an image without kubectl.
    """
    with zipfile.ZipFile(wheel.path) as archive:
        declared = archive.read(f"{wheel.information}/entry_points.txt").decode()
    parser = ConfigParser(delimiters="=")
    parser.read_string(declared)
    tree: Tree = {}
    for name, place in parser["console_scripts"].items():
        if "kubectl" in name:
            continue
        module, _, function = place.partition(":")
        text = (
            f"#!/usr/bin/python3\nimport sys\n\nfrom {module} import {function}\n\n"
            f"sys.exit({function}())\n"
        )
        tree[f"usr/local/bin/{name}"] = File(text.encode(), 0o755)
    return tree


def _record(text: str) -> bytes:
    """The wheel's list of its files, without those that are left out."""
    kept = [row for row in csv.reader(io.StringIO(text)) if not NEEDLESS.fullmatch(row[0])]
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(kept)
    return written.getvalue().encode()


def _target(architecture: str, python: str) -> list[str]:
    """Options that make pip choose wheels for the image, whatever machine it runs on."""
    machine = MACHINES[architecture]
    minors = range(GLIBC_MINOR_MAX, GLIBC_MINOR_MIN - 1, -1)
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in minors]
    platforms.append(f"manylinux2014_{machine}")
    return [f"--python-version={python}", "--implementation=cp"] + [
        f"--platform={platform}" for platform in platforms
    ]


def _pip(*arguments: str, **environment: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    done = subprocess.run(
        [*command, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        kind = UnavailableError if arguments[0] == "download" else ImageError
        raise kind(f"pip {arguments[0]} failed:\n{done.stderr.strip()}")
