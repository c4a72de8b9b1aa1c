"""The image that `make image` builds: what is in it, and that it runs as a cluster would run it."""

import gzip
import hashlib
import io
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

import image as tool
from image_parts.debian import PYTHON
from image_parts.tree import UnavailableError

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
IN_CI = os.environ.get("CI") == "true"
NAME = "localhost/bursar:test"
UID = 65532
BYTECODE_FLAGS = slice(4, 8)
UNCHECKED_HASH = 0b01
IS_COMPILED = f"{sys.version_info.major}.{sys.version_info.minor}" == PYTHON
"""Bytecode is made by the Python that builds the image, if it is of the same version."""

Run = Callable[..., subprocess.CompletedProcess[str]]


@dataclass(frozen=True)
class Image:
    """An archive, read by nothing but the specification of OCI."""

    archive: Path
    bill: Path

    @cached_property
    def files(self) -> dict[str, bytes]:
        with tarfile.open(self.archive) as tar:
            members = [member for member in tar if member.isfile()]
            return {member.name: tar.extractfile(member).read() for member in members}

    @property
    def listed(self) -> dict[str, Any]:
        """The descriptor of the manifest."""
        (listed,) = json.loads(self.files["index.json"])["manifests"]
        return listed

    def blob(self, descriptor: dict[str, Any]) -> bytes:
        return self.files[f"blobs/{descriptor['digest'].replace(':', '/')}"]

    @property
    def manifest(self) -> dict[str, Any]:
        return json.loads(self.blob(self.listed))

    @property
    def config(self) -> dict[str, Any]:
        return json.loads(self.blob(self.manifest["config"]))

    @cached_property
    def layers(self) -> list[bytes]:
        return [gzip.decompress(self.blob(layer)) for layer in self.manifest["layers"]]

    @cached_property
    def members(self) -> list[list[tarfile.TarInfo]]:
        """The entries of each layer."""
        found = []
        for layer in self.layers:
            with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
                found.append(tar.getmembers())
        return found

    @property
    def all_members(self) -> list[tarfile.TarInfo]:
        return [member for layer in self.members for member in layer]

    def read(self, name: str) -> bytes:
        """A file of the image."""
        for layer, members in zip(self.layers, self.members, strict=True):
            for member in members:
                if member.name == name and member.isfile():
                    return layer[member.offset_data : member.offset_data + member.size]
        raise KeyError(name)


@pytest.fixture(scope="module")
def image(tmp_path_factory) -> Image:
    try:
        built = tool.build(tool.native_architecture(), NAME)
    except UnavailableError as error:
        if IN_CI:
            raise
        pytest.skip(str(error))
    return Image(*tool.write(built, tmp_path_factory.mktemp("image")))


@pytest.fixture(scope="module")
def root(image, tmp_path_factory) -> Path:
    """The layers unpacked one over the other."""
    folder = tmp_path_factory.mktemp("root")
    folder.chmod(0o755)
    for layer in image.layers:
        command = ["tar", "--extract", "--preserve-permissions", "--directory", folder]
        subprocess.run(command, input=layer, check=True)
    return folder


@pytest.fixture(scope="module")
def run(image, root) -> Run:
    """Run a command of the image as its user, with its environment, on a read-only root."""
    read_only = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && '
    if os.geteuid() == 0:
        namespaces = ["unshare", "--mount"]
        enter = f'exec "$CHROOT" --userspec={UID}:{UID} "$0" "$@"'
    else:
        namespaces = ["unshare", "--user", "--map-root-user", "--mount"]
        enter = f'exec "$UNSHARE" --user --map-user={UID} --map-group={UID} --root="$0" "$@"'
    possible = subprocess.run([*namespaces, "true"], capture_output=True, text=True, check=False)
    if possible.returncode and not IN_CI:
        pytest.skip(f"no namespaces to run the image in: {possible.stderr}")
    programs = {"CHROOT": "chroot", "UNSHARE": "unshare"}
    found = " ".join(f"{name}={shutil.which(value)}" for name, value in programs.items())
    export = " ".join(f"'{setting}'" for setting in image.config["config"]["Env"])
    script = f"{read_only} {found} && export {export} && {enter}"

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*namespaces, "sh", "-c", script, root, *command],
            env={"PATH": os.environ["PATH"]},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )

    return run


def test_bursar_runs_as_its_user_on_a_read_only_root(run, image):
    entrypoint = image.config["config"]["Entrypoint"]
    version = run(*entrypoint, "--version")
    quantity = run(*entrypoint, "quantity", "1500m")

    assert (version.returncode, version.stderr) == (0, "")
    assert version.stdout == f"bursar {image.config['config']['Labels'][label('version')]}\n"
    assert (quantity.returncode, quantity.stderr) == (0, "")
    assert quantity.stdout.splitlines()[1].split() == ["1500m", "1500m", "1.5", "DecimalSI"]


def test_packaged_definitions_travel_with_it(run):
    printed = run("bursar", "manifests", "crds")
    definitions = sorted((ROOT / "api/crds").glob("*.yaml"))

    assert (printed.returncode, printed.stderr) == (0, "")
    assert printed.stdout.count("kind: CustomResourceDefinition\n") == len(definitions)


def test_the_user_can_write_nowhere(run):
    program = """
import errno, os, sys
def refused(place):
    try:
        open(os.path.join(place, "written"), "w")
    except OSError as error:
        return errno.errorcode[error.errno]
print(os.getuid(), os.getgid(), *[refused(place) for place in sys.argv[1:]])
"""
    told = run("python3", "-c", program, "/", "/tmp", "/home/bursar")  # noqa: S108

    assert told.stdout.split() == [str(UID), str(UID), "EROFS", "EROFS", "EROFS"]


def test_every_module_finds_its_libraries(run):
    """Modules of the standard library whose libraries are left out are left out as well."""
    program = """
import importlib, pathlib, sys
native = [path for place in sys.path[1:] for path in pathlib.Path(place).rglob("*.so")]
for path in native:
    place = max((place for place in sys.path if str(path).startswith(place + "/")), key=len)
    inside = path.relative_to(place)
    parts = [*inside.parent.parts, inside.name.split(".")[0]]
    importlib.import_module(".".join(parts))
for package in pathlib.Path(sys.path[-1]).glob("*/__init__.py"):
    importlib.import_module(package.parent.name)
import ssl, zoneinfo
assert ssl.create_default_context().get_ca_certs()
zoneinfo.ZoneInfo("Europe/Berlin")
print(len(native))
"""
    told = run("python3", "-c", program)

    assert (told.returncode, told.stderr) == (0, "")
    assert int(told.stdout) > 0


def test_a_second_build_elsewhere_makes_the_same_image(image, tmp_path):
    circumstances = {"TZ": "Asia/Tokyo", "LC_ALL": "C", "PYTHONHASHSEED": "1"}
    command = [sys.executable, ROOT / "tools/image.py", "--name", NAME, "--out", tmp_path / "out"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, **circumstances},
        umask=0o077,
        capture_output=True,
        text=True,
        check=True,
    )
    archive, bill = (line.split() for line in done.stdout.splitlines())

    assert archive[-1] == image.listed["digest"]
    assert Path(archive[0]).read_bytes() == image.archive.read_bytes()
    assert Path(bill[0]).read_bytes() == image.bill.read_bytes()


def test_digests_and_sizes_are_true(image):
    manifest = image.manifest
    for descriptor in (image.listed, manifest["config"], *manifest["layers"]):
        blob = image.blob(descriptor)

        assert descriptor["digest"] == f"sha256:{hashlib.sha256(blob).hexdigest()}"
        assert descriptor["size"] == len(blob)
    diffs = [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in image.layers]
    assert image.config["rootfs"] == {"type": "layers", "diff_ids": diffs}
    blobs = {name for name in image.files if name.startswith("blobs/")}
    assert len(blobs) == len(diffs) + 2
    assert json.loads(image.files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}


def test_container_runtimes_learn_name_user_and_command(image):
    config = image.config
    labels = config["config"]["Labels"]
    commit = tool.read_commit()

    assert image.listed["annotations"] == {
        "io.containerd.image.name": NAME,
        "org.opencontainers.image.ref.name": NAME,
    }
    assert image.listed["platform"] == {"architecture": config["architecture"], "os": "linux"}
    assert config["config"]["User"] == f"{UID}:{UID}"
    assert config["config"]["Entrypoint"] == ["bursar"]
    assert config["config"]["WorkingDir"] == "/"
    assert labels[label("title")] == "bursar"
    assert labels[label("licenses")] == "Apache-2.0"
    assert labels[label("revision")] == commit.revision


def label(name: str) -> str:
    return f"org.opencontainers.image.{name}"


def test_all_files_belong_to_root_and_nobody_else_may_change_them(image):
    members = image.all_members
    writable = [m.name for m in members if not m.issym() and m.mode & (stat.S_IWGRP | stat.S_IWOTH)]

    assert {(member.uid, member.gid) for member in members} == {(0, 0)}
    assert [m.name for m in members if m.mode & (stat.S_ISUID | stat.S_ISGID)] == []
    assert writable == ["tmp"]
    assert next(member.mode for member in members if member.name == "tmp") == 0o1777
    assert {member.type for member in members} == {
        tarfile.REGTYPE,
        tarfile.DIRTYPE,
        tarfile.SYMTYPE,
    }


def test_no_file_is_in_two_layers(image):
    names = [member.name for member in image.all_members]

    assert len(names) == len(set(names))


def test_there_is_one_program_and_its_interpreter(image):
    """No shell, no compiler, no installer of packages."""
    members = image.all_members
    programs = {
        member.name
        for member in members
        if member.isfile() and member.mode & 0o111 and not is_library(member.name)
    }
    folders = {PurePosixPath(member.name).name for member in members if member.isdir()}

    assert programs == {"usr/bin/python" + PYTHON, "usr/local/bin/bursar"}
    assert folders & {"pip", "setuptools", "ensurepip", "include"} == set()


def is_library(name: str) -> bool:
    return name.startswith(("usr/lib/", "usr/lib64/", f"usr/local/lib/python{PYTHON}/"))


def test_links_lead_to_files_of_the_image(image, root):
    links = [member.name for member in image.all_members if member.issym()]

    assert links
    assert [name for name in links if not resolved(root, root / name).exists()] == []


def resolved(root: Path, path: Path) -> Path:
    """Follow links as a process does whose root is the image's."""
    place = root
    parts = list(path.relative_to(root).parts)
    while parts:
        part = parts.pop(0)
        place = place.parent if part == ".." else place / part
        if place.is_symlink():
            target = PurePosixPath(place.readlink())
            place = root if target.is_absolute() else place.parent
            parts = [part for part in target.parts if part != "/"] + parts
    return place


def test_only_the_layer_of_bursar_has_the_time_of_the_commit(image):
    """So a new commit changes this layer alone."""
    epoch = tool.read_commit().epoch
    times = [{int(member.mtime) for member in layer} for layer in image.members]
    below = [member.name for layer in image.members[:-1] for member in layer]

    assert times[-1] == {epoch}
    assert [len(found) for found in times] == [1, 1, 1]
    assert epoch not in times[0] | times[1]
    assert [name for name in below if "/bursar/" in name or "bursar-" in name] == []


@pytest.mark.skipif(not IS_COMPILED, reason=f"only Python {PYTHON} compiles for the image")
def test_bytecode_is_complete_and_depends_on_no_time(image):
    names = {member.name for member in image.all_members if member.isfile()}
    sources = {name for name in names if name.endswith(".py") and "/pygments/" not in name}
    cached = {name for name in names if name.endswith(".pyc")}
    missing = {name for name in sources if compiled(name) not in cached}
    sample = image.read(compiled(f"{tool.SITE}/bursar/entry/command.py"))

    assert missing == set()
    assert int.from_bytes(sample[BYTECODE_FLAGS], "little") == UNCHECKED_HASH


def compiled(name: str) -> str:
    path = PurePosixPath(name)
    tag = f"cpython-{PYTHON.replace('.', '')}"
    return str(path.parent / "__pycache__" / f"{path.stem}.{tag}.pyc")


# ---------------------------------------------------------------- the bill of materials


@pytest.fixture(scope="module")
def bill(image) -> dict[str, Any]:
    return json.loads(image.bill.read_bytes())


def test_bill_lists_exactly_what_is_inside(image, bill):
    status = image.read("var/lib/dpkg/status").decode()
    installed = re.findall(
        r"^Package: (\S+)\nStatus: install ok installed\n(?:.+\n)*?Version: (\S+)$",
        status,
        re.MULTILINE,
    )
    metadata = [m.name for m in image.all_members if m.name.endswith(".dist-info/METADATA")]
    distributions = [described(image.read(name).decode()) for name in metadata]

    assert listed(bill, "pkg:deb/debian/") == sorted(installed)
    assert listed(bill, "pkg:pypi/") == sorted(distributions)
    assert "bursar" in dict(distributions)
    assert status.count("Package: ") == len(installed)


def listed(bill: dict[str, Any], purl: str) -> list[tuple[str, str]]:
    return sorted(
        (package["name"], package["versionInfo"])
        for package in bill["packages"]
        if purl_of(package).startswith(purl)
    )


def purl_of(package: dict[str, Any]) -> str:
    return next((ref["referenceLocator"] for ref in package.get("externalRefs", ())), "")


def described(metadata: str) -> tuple[str, str]:
    name, version = (
        re.search(rf"^{field}: (\S+)$", metadata, re.MULTILINE)[1] for field in ("Name", "Version")
    )
    return re.sub(r"[-_.]+", "-", name).lower(), version


def test_bill_is_also_inside(image):
    assert image.read("usr/share/bursar/sbom.spdx.json") == image.bill.read_bytes()


def test_bill_has_the_structure_of_spdx(bill):
    packages = bill["packages"]
    names = {package["SPDXID"] for package in packages}
    required = {"SPDXID", "name", "downloadLocation", "filesAnalyzed", "versionInfo"}

    assert (bill["spdxVersion"], bill["dataLicense"]) == ("SPDX-2.3", "CC0-1.0")
    assert bill["SPDXID"] == "SPDXRef-DOCUMENT"
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", bill["documentNamespace"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", bill["creationInfo"]["created"])
    assert all(re.fullmatch(r"Tool: \S+", name) for name in bill["creationInfo"]["creators"])
    assert len(names) == len(packages)
    assert all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", name) for name in names)
    assert [package for package in packages if not required <= package.keys()] == []
    for relation in bill["relationships"]:
        assert relation.keys() == {"spdxElementId", "relationshipType", "relatedSpdxElement"}
        assert relation["spdxElementId"] in {*names, "SPDXRef-DOCUMENT"}
        assert relation["relatedSpdxElement"] in names
    contained = [r for r in bill["relationships"] if r["relationshipType"] == "CONTAINS"]
    assert {r["relatedSpdxElement"] for r in contained} == names - {"SPDXRef-Image"}


def test_bill_gives_hash_and_licence_of_everything_from_a_registry(bill):
    locked = (ROOT / "requirements/runtime.txt").read_text()
    for package in bill["packages"]:
        purl = purl_of(package)
        sums = {
            entry["algorithm"]: entry["checksumValue"] for entry in package.get("checksums", ())
        }
        if not purl:
            assert package["SPDXID"] == "SPDXRef-Image"
        elif purl.startswith("pkg:deb/"):
            assert re.fullmatch(r"pkg:deb/debian/\S+@\S+\?arch=\S+&distro=\w+", purl)
            assert re.fullmatch(r"[0-9a-f]{64}", sums["SHA256"])
        else:
            assert package["licenseDeclared"] not in {"", "NOASSERTION"}
            assert sums["SHA256"] in locked or package["name"] == "bursar"


def test_licences_of_debian_packages_are_where_the_bill_says(bill, root):
    places = [package["licenseComments"] for package in bill["packages"] if "sourceInfo" in package]

    assert places
    assert [p for p in places if not resolved(root, root / p.removeprefix("/")).exists()] == []
