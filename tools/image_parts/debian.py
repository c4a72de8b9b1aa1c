"""Debian's packages: downloaded by apt in a folder of its own, and read without installing them.

apt runs with its own lists, sources and an empty status, so it needs no root, installs nothing,
and leaves the machine's own state alone. It checks the signatures of the archive.
"""

import email.parser
import fcntl
import fnmatch
import hashlib
import io
import re
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import Final

from image_parts.tree import File, Folder, ImageError, Link, Tree, UnavailableError

SUITE: Final = "bookworm"
PYTHON: Final = "3.11"
"""The Python of the suite."""
SUITES: Final = ("", "-updates", "-security")
KEYRING: Final = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
LISTS_SECONDS_MAX: Final = 24 * 60 * 60
"""The age at which lists of packages are fetched again."""

WANTED: Final = (
    "base-files",  # names the distribution, for scanners
    "ca-certificates",
    "libpython3-stdlib",
    "libstdc++6",  # for grpcio
    "python3-minimal",
    "tzdata",  # for the time zones of counting policies
)
ABSENT: Final = (
    # They install and configure packages.
    "debconf",
    "dpkg",
    "mawk",
    "openssl",
    # Modules of the standard library that Bursar does not use need them; see LEFT_OUT.
    "libcrypt1",
    "libdb5.3",
    "libncursesw6",
    "libnsl2",
    "libreadline8",
    "libsqlite3-0",
    "libtinfo6",
    "libtirpc3",
    "media-types",
)
"""Dependencies that the image does without. apt is told that they are installed."""

KEPT: Final = (
    "etc/debian_version",
    "etc/os-release",
    "usr/bin/python3*",
    "usr/lib/*",
    "usr/lib64/*",
    "usr/share/ca-certificates/*.crt",
    "usr/share/common-licenses/*",
    "usr/share/doc/*/copyright",
    "usr/share/zoneinfo/*",
)
"""Files that the image keeps of its packages. A star stands for slashes too."""
STDLIB: Final = f"usr/lib/python{PYTHON}"
LEFT_OUT: Final = (
    "*/gconv/*",
    "usr/lib/*/perl*",
    "usr/lib/python3/*",
    "usr/lib/tmpfiles.d/*",
    "usr/lib/valgrind/*",
    "usr/share/zoneinfo/localtime",
    "usr/share/zoneinfo/posix/*",
    "usr/share/zoneinfo/right/*",
    *(
        f"{STDLIB}/{name}"
        for name in (
            "EXTERNALLY-MANAGED",
            "LICENSE.txt",
            "curses/*",
            "dbm/*",
            "distutils/*",
            "ensurepip/*",
            "idlelib/*",
            "lib-dynload/_crypt.*",
            "lib-dynload/_curses*",
            "lib-dynload/_dbm.*",
            "lib-dynload/_sqlite3.*",
            "lib-dynload/_test*",
            "lib-dynload/_xxtestfuzz.*",
            "lib-dynload/nis.*",
            "lib-dynload/readline.*",
            "lib2to3/*",
            "pydoc_data/*",
            "sitecustomize.py",
            "sqlite3/*",
            "test/*",
            "tkinter/*",
            "turtle*",
        )
    ),
)
_KEPT: Final = re.compile("|".join(map(fnmatch.translate, KEPT)) + "|usr/share/doc/[^/]+")
"""The last part: a package may have a link in place of its folder of documents."""
_LEFT_OUT: Final = re.compile("|".join(map(fnmatch.translate, LEFT_OUT)))
MERGED: Final = ("bin", "lib", "lib32", "lib64", "libx32", "sbin")
"""Folders of the root that are links to folders of the same name in /usr."""


@dataclass(frozen=True)
class Package:
    path: Path
    control: Message
    sha256: str

    @property
    def name(self) -> str:
        return str(self.control["Package"])

    @property
    def version(self) -> str:
        return str(self.control["Version"])

    @property
    def architecture(self) -> str:
        return str(self.control["Architecture"])


def packages(cache: Path, architecture: str) -> list[Package]:
    """Download the wanted packages and all that they depend on; sorted by name."""
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise UnavailableError(f"no {program} on PATH; build on Debian, or use the Dockerfile")
    with _apt(cache / f"apt-{SUITE}-{architecture}", architecture) as apt:
        # Packages that were downloaded before are not listed, so apt looks for them elsewhere.
        nowhere = f"Dir::Cache::archives={apt.folder}/none"
        listed = apt.run("install", "--print-uris", "-qq", "-o", nowhere, *WANTED)
        wanted = re.findall(r"^'[^']*' (\S+) \d+ SHA256:([0-9a-f]{64})$", listed, re.MULTILINE)
        if not wanted or len(wanted) != len(listed.splitlines()):
            raise ImageError(f"apt-get --print-uris printed something else:\n{listed}")
        if not all((apt.archives / name).exists() for name, _ in wanted):
            apt.run("install", "--download-only", "-qq", "--yes", *WANTED)
        found = [_package(apt.archives / name, sha256) for name, sha256 in wanted]
    return sorted(found, key=lambda package: package.name)


def base(found: list[Package], *, users: dict[str, int]) -> tuple[Tree, int]:
    """The files of the packages as an image needs them, and the time of the newest of them."""
    tree: Tree = {name: Link(f"usr/{name}") for name in ("bin", "lib", "sbin")}
    times = [0]
    for package in found:
        files, newest = _files(package)
        tree.update(files)
        times.append(newest)
    if any(name.startswith("usr/lib64/") for name in tree):
        tree["lib64"] = Link("usr/lib64")
    bundle = "etc/ssl/certs/ca-certificates.crt"
    authorities = sorted(name for name in tree if name.startswith("usr/share/ca-certificates/"))
    tree[bundle] = File(b"".join(_content(tree.pop(name)) for name in authorities))
    tree["usr/lib/ssl/cert.pem"] = Link(f"/{bundle}")
    tree["usr/lib/ssl/certs"] = Link("/etc/ssl/certs")
    tree["var/run"] = Link("/run")
    tree["var/lib/dpkg/status"] = File("\n".join(map(_status, found)).encode())
    tree["etc/nsswitch.conf"] = File(b"passwd: files\ngroup: files\nhosts: files dns\n")
    passwd = [f"{name}:x:{uid}:{uid}::/home/{name}:/sbin/nologin" for name, uid in users.items()]
    group = [f"{name}:x:{uid}:" for name, uid in users.items()]
    tree["etc/passwd"] = File("\n".join(["root:x:0:0::/root:/sbin/nologin", *passwd, ""]).encode())
    tree["etc/group"] = File("\n".join(["root:x:0:", *group, ""]).encode())
    tree |= {f"home/{name}": Folder() for name in users}
    tree |= {name: Folder() for name in ("dev", "proc", "root", "run", "sys", "usr/sbin")}
    tree |= {"tmp": Folder(0o1777)}
    return tree, max(times)


def _status(package: Package) -> str:
    """The package's paragraph in dpkg's database, which scanners read."""
    fields = [f"{key}: {value}" for key, value in package.control.items() if key != "Package"]
    return "\n".join(
        [f"Package: {package.name}", "Status: install ok installed", *fields, ""],
    )


def _content(entry: File | Link | Folder) -> bytes:
    assert isinstance(entry, File)
    return entry.data


def _package(path: Path, sha256: str) -> Package:
    if hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
        path.unlink()
        raise ImageError(f"{path.name} has another hash than the archive lists; it was removed")
    control = subprocess.run(
        ["dpkg-deb", "--field", path], capture_output=True, text=True, check=True
    )
    return Package(path, email.parser.HeaderParser().parsestr(control.stdout), sha256)


def _files(package: Package) -> tuple[Tree, int]:
    unpacked = subprocess.run(
        ["dpkg-deb", "--fsys-tarfile", package.path], capture_output=True, check=True
    )
    tree: Tree = {}
    newest = 0
    with tarfile.open(fileobj=io.BytesIO(unpacked.stdout)) as tar:
        for member in tar:
            newest = max(newest, int(member.mtime))
            name = _merged(member.name)
            if not _is_kept(name):
                continue
            if member.issym():
                tree[name] = Link(member.linkname)
            elif member.isfile() or member.islnk():
                content = tar.extractfile(member)
                assert content is not None
                is_program = member.mode & 0o100
                tree[name] = File(content.read(), 0o755 if is_program else 0o644)
    return tree, newest


def _merged(name: str) -> str:
    name = name.removeprefix("./")
    return f"usr/{name}" if name.split("/")[0] in MERGED else name


def _is_kept(name: str) -> bool:
    return bool(_KEPT.fullmatch(name)) and not _LEFT_OUT.fullmatch(name)


# ---------------------------------------------------------------- apt


@dataclass(frozen=True)
class _Apt:
    folder: Path

    @property
    def archives(self) -> Path:
        return self.folder / "archives"

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            ["apt-get", "-c", self.folder / "apt.conf", *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise UnavailableError(f"apt-get {arguments[0]} failed:\n{done.stderr.strip()}")
        return done.stdout

    def refresh_lists(self) -> None:
        """Fetch the lists of packages if there are none or they are old."""
        stamp = self.folder / "updated"
        is_fresh = stamp.exists() and _age_seconds(stamp) < LISTS_SECONDS_MAX
        if is_fresh:
            return
        try:
            self.run("update", "-qq", "-o", "APT::Update::Error-Mode=any")
        except ImageError as error:
            if not stamp.exists():
                raise
            print(f"image: using lists of packages that are a day old. {error}", file=sys.stderr)
        else:
            stamp.touch()


@contextmanager
def _apt(folder: Path, architecture: str) -> Iterator[_Apt]:
    """A private apt, one user at a time."""
    for name in ("lists/partial", "archives/partial", "none/partial"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (folder / "status").write_text("\n".join(_stub(name) for name in ABSENT))
        sources = _sources()
        if not (folder / "sources.list").exists() or (
            (folder / "sources.list").read_text() != sources
        ):
            (folder / "updated").unlink(missing_ok=True)
            (folder / "sources.list").write_text(sources)
        (folder / "apt.conf").write_text(_configuration(folder, architecture))
        apt = _Apt(folder)
        apt.refresh_lists()
        yield apt


def _age_seconds(path: Path) -> float:
    return time.time() - path.stat().st_mtime  # noqa: TID251 (the age of a file on disk)


def _stub(name: str) -> str:
    provides = "Provides: awk\n" if name == "mawk" else ""
    return (
        f"Package: {name}\nStatus: install ok installed\nVersion: 999:0\nArchitecture: all\n"
        f"Multi-Arch: foreign\nMaintainer: none\nDescription: none\n{provides}"
    )


def _sources() -> str:
    """The suites of the image at the mirrors that the machine is set up with."""
    release = Path("/etc/os-release").read_text()
    own = re.search(r'^VERSION_CODENAME="?([a-z]+)', release, re.MULTILINE)
    if own is None or not re.search(r'^ID="?debian"?$', release, re.MULTILINE):
        raise UnavailableError("this machine is not Debian; use the Dockerfile")
    listed = subprocess.run(
        [
            *("apt-get", "indextargets", "--no-release-info"),
            *("--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages", "Component: main"),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    mirrors = {suite: uri for uri, suite in (line.split() for line in listed.stdout.splitlines())}
    missing = [f"{own[1]}{suite}" for suite in SUITES if f"{own[1]}{suite}" not in mirrors]
    if missing:
        raise UnavailableError(f"the machine's apt sources lack {', '.join(missing)}")
    signed = f"signed-by={KEYRING} " if KEYRING.exists() else ""
    return "".join(
        f"deb [{signed}target=Packages] {mirrors[own[1] + suite]} {SUITE}{suite} main\n"
        for suite in SUITES
    )


def _configuration(folder: Path, architecture: str) -> str:
    return f"""\
#clear APT::Architectures;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
APT::Architecture "{architecture}";
APT::Architectures {{ "{architecture}"; }};
APT::Install-Recommends "false";
APT::Sandbox::User "";
Acquire::ForceHash "SHA256";
Acquire::Languages "none";
Dir::Cache "{folder}";
Dir::Cache::archives "{folder}/archives";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::Etc::sourcelist "{folder}/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::State "{folder}";
Dir::State::lists "{folder}/lists";
Dir::State::status "{folder}/status";
"""
