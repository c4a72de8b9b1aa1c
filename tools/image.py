"""`make image`: an OCI image of Bursar, from Debian's packages and the locked requirements.

It needs no registry of images, no container engine and no root. The same commit and the same
packages make the same image, byte for byte. docs/how-to/build-the-image.md tells how to use it.
"""

import argparse
import os
import platform
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from assets import cache_folder
from image_parts import bytecode, debian, sbom, wheels
from image_parts.archive import Archive, archive_of, full_name
from image_parts.tree import File, ImageError, Layer, Tree, digest_of, layer_of, with_parents
from image_parts.wheels import Wheel

ROOT: Final = Path(__file__).parents[1]
UID: Final = 65532
"""The user that images without a shell commonly have. Nodes have no user of this number."""
SITE: Final = f"usr/local/lib/python{debian.PYTHON}/dist-packages"
ENVIRONMENT: Final = (
    "PATH=/usr/local/bin:/usr/bin",
    "LANG=C.UTF-8",
    "PYTHONDONTWRITEBYTECODE=1",
)


@dataclass(frozen=True)
class Built:
    version: str
    architecture: str
    layers: list[Layer]
    archive: Archive
    bill: bytes

    @property
    def stem(self) -> str:
        return f"bursar-{self.version}-{self.architecture}"


@dataclass(frozen=True)
class Commit:
    revision: str
    epoch: int


def build(architecture: str, name: str = "", *, cache: Path | None = None) -> Built:
    """Build the image. Packages are downloaded once and kept in the cache."""
    cache = cache or cache_folder() / "image"
    commit = read_commit()
    found = debian.packages(cache, architecture)
    locked = wheels.locked_wheels(cache, architecture, debian.PYTHON)
    with tempfile.TemporaryDirectory() as scratch:
        own = wheels.own_wheel(Path(scratch), commit.epoch)
        bill = sbom.document(own, locked, found, architecture=architecture, epoch=commit.epoch)
        layers = _layers(found, locked, own, bill, commit.epoch)
        version = own.version
    archive = archive_of(
        layers,
        _settings(version, commit.revision),
        architecture=architecture,
        name=full_name(name or "bursar", version.replace("+", "-")),
        epoch=commit.epoch,
    )
    return Built(version, architecture, layers, archive, bill)


def _layers(
    found: list[debian.Package], locked: list[Wheel], own: Wheel, bill: bytes, epoch: int
) -> list[Layer]:
    """Three layers, so that a new version of Bursar changes the smallest of them alone.

    The time of the commit is that of Bursar's own layer; the others have the time of their newest
    file.
    """
    system, system_time = debian.base(found, users={"bursar": UID})
    system |= bytecode.compiled(system, debian.PYTHON)
    libraries: Tree = {}
    times = []
    for wheel in locked:
        files, newest = wheels.unpacked(wheel, SITE)
        libraries |= files
        times.append(newest)
    libraries |= bytecode.compiled(libraries, debian.PYTHON)
    bursar, _ = wheels.unpacked(own, SITE)
    bursar |= bytecode.compiled(bursar, debian.PYTHON)
    bursar |= wheels.commands(own) | {sbom.PLACE: File(bill)}
    below = with_parents(system)
    upper = {**below, **with_parents(libraries)}
    return [
        layer_of(f"Debian {debian.SUITE}", system, below=(), mtime=system_time),
        layer_of("requirements/runtime.txt", libraries, below=below, mtime=max(times)),
        layer_of(f"bursar {own.version}", bursar, below=upper, mtime=epoch),
    ]


def _settings(version: str, revision: str) -> dict[str, Any]:
    title = "org.opencontainers.image"
    return {
        "User": f"{UID}:{UID}",
        "Env": list(ENVIRONMENT),
        "Entrypoint": ["bursar"],
        "WorkingDir": "/",
        "Labels": {
            f"{title}.title": "bursar",
            f"{title}.description": "One set of books for everything a Kubernetes pod consumes",
            f"{title}.version": version,
            f"{title}.revision": revision,
            f"{title}.licenses": "Apache-2.0",
        },
    }


def read_commit() -> Commit:
    """The commit that is built. A tree with changes of its own is called dirty."""
    revision, seconds = _git("log", "-1", "--format=%H %ct").split()
    is_dirty = bool(_git("status", "--porcelain"))
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or seconds
    return Commit(f"{revision}-dirty" if is_dirty else revision, int(epoch))


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ImageError(f"git {arguments[0]} failed: {done.stderr.strip()}")
    return done.stdout.strip()


def native_architecture() -> str:
    machine = platform.machine()
    return next((name for name, other in wheels.MACHINES.items() if other == machine), machine)


def write(built: Built, folder: Path) -> list[Path]:
    """Write the archive, and the bill of materials beside it; print a line for each."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for ending, data, digest in (
        ("oci.tar", built.archive.data, built.archive.digest),
        ("sbom.spdx.json", built.bill, digest_of(built.bill)),
    ):
        path = folder / f"{built.stem}.{ending}"
        path.write_bytes(data)
        print(f"{path}  {len(data)} bytes  {digest}")
        paths.append(path)
    return paths


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--arch",
        choices=sorted(wheels.MACHINES),
        default=native_architecture(),
        help="architecture of the image (default: this machine's)",
    )
    parser.add_argument(
        "--name",
        default="",
        help="name and tag of the image (default: bursar, and the version as its tag)",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("dist"), help="folder to write to (default: dist)"
    )
    options = parser.parse_args()
    try:
        write(build(options.arch, options.name), options.out)
    except ImageError as error:
        print(f"image: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
