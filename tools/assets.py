"""Programs built from upstream Go modules: the oracle, and the parts of a real control plane.

Each is built once per version and kept outside the tree, under a name made from
everything that went into it, so all clones on a machine share it. A folder of
ready binaries can be given instead, in BURSAR_ASSETS or KUBEBUILDER_ASSETS.

Older versions of the control plane are assets as well, each pinned by a module of its own, such as
`kube-apiserver-1.34`, and so are AAQ's end-to-end tests, `aaq-e2e`. They are built only if they are
named.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONTROLPLANE = ROOT / "controlplane"
KUBERNETES = "k8s.io/kubernetes"
PROMETHEUS = "github.com/prometheus/prometheus"
AAQ = "kubevirt.io/application-aware-quota"
OLDER = ("1.32", "1.34")
"""Minor versions of Kubernetes beside the one that everything else is compared with."""
SERVERS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
"""The programs of a control plane that exist in each of these versions."""
QUIET_SECONDS = 30
"""How often a log that is not a terminal is told that the build still runs."""


class AssetError(Exception):
    """A program that cannot be had; the message says why, in the first line."""


@dataclass(frozen=True)
class Asset:
    """A Go program: in which of our modules it is pinned, and which module gives its version."""

    name: str
    package: str
    pinned_by: str
    folder: Path = CONTROLPLANE
    sources: str = ""
    """Our own sources, as a glob below the folder, where the program is ours."""
    tags: str = ""
    """Go build tags, separated by commas."""
    is_test: bool = False
    """The program runs the tests of the package, as `go test -c` makes it."""
    c_library: str = ""
    """The packages of `PACKAGES` with a C library that is linked statically; takes a C compiler."""

    @property
    def version(self) -> str:
        pinned = (self.folder / "go.mod").read_text()
        line = rf"^(?:require|\t)\s*{re.escape(self.pinned_by)} (v\S+)"
        match = re.search(line, pinned, re.MULTILINE)
        if match is None:
            raise AssetError(f"{self.folder.name}/go.mod does not pin {self.pinned_by}")
        return match.group(1)

    @property
    def linker_flags(self) -> str:
        if self.c_library:
            return "-s -w -extldflags -static"
        if self.pinned_by != KUBERNETES or self.sources:
            return "-s -w"
        # Without these a server calls itself v0.0.0, and clients refuse to talk to it.
        major, minor, _ = self.version.removeprefix("v").split(".")
        stamp = {
            "gitVersion": self.version,
            "gitMajor": major,
            "gitMinor": minor,
            "gitTreeState": "clean",
        }
        values = [f"-X k8s.io/component-base/version.{key}={val}" for key, val in stamp.items()]
        return " ".join(["-s -w", *values])


def _ours(name: str) -> Asset:
    return Asset(name=name, package=f"./{name}", pinned_by=KUBERNETES, sources=f"{name}/*.go")


def _kubernetes(name: str) -> Asset:
    return Asset(name=name, package=f"{KUBERNETES}/cmd/{name}", pinned_by=KUBERNETES)


def _older(name: str, minor: str) -> Asset:
    return Asset(
        name=f"{name}-{minor}",
        package=f"{KUBERNETES}/cmd/{name}",
        pinned_by=KUBERNETES,
        folder=CONTROLPLANE / f"kubernetes-{minor}",
    )


def _pinned(name: str, module: str, package: str) -> Asset:
    return Asset(name=name, package=package, pinned_by=module, folder=CONTROLPLANE / name)


def _containerd(name: str) -> Asset:
    module = "github.com/containerd/containerd/v2"
    return Asset(
        name=name,
        package=f"{module}/cmd/{name}",
        pinned_by=module,
        folder=CONTROLPLANE / "containerd",
        tags="no_btrfs,no_devmapper,no_zfs",
    )


ASSETS = {
    asset.name: asset
    for asset in (
        _ours("oracle"),
        _ours("podresources"),
        _ours("kubelet-http"),
        _ours("pause"),
        _kubernetes("kube-apiserver"),
        _kubernetes("kube-scheduler"),
        _kubernetes("kube-controller-manager"),
        _kubernetes("kubectl"),
        _kubernetes("kubemark"),
        _kubernetes("kubelet"),
        _kubernetes("kube-proxy"),
        _containerd("containerd"),
        _containerd("containerd-shim-runc-v2"),
        _containerd("ctr"),
        Asset(
            name="runc",
            package="github.com/opencontainers/runc",
            pinned_by="github.com/opencontainers/runc",
            folder=CONTROLPLANE / "runc",
            tags="seccomp,urfave_cli_no_docs,netgo,osusergo",
            c_library="seccomp",
        ),
        _pinned("etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3"),
        _pinned("kwok", "sigs.k8s.io/kwok", "sigs.k8s.io/kwok/cmd/kwok"),
        Asset(
            name="aaq-sidecar",
            package=".",
            pinned_by=AAQ,
            folder=CONTROLPLANE / "aaq-sidecar",
            sources="*.go",
        ),
        _pinned("helm", "helm.sh/helm/v4", "helm.sh/helm/v4/cmd/helm"),
        Asset(
            name="promtool",
            package=f"{PROMETHEUS}/cmd/promtool",
            pinned_by=PROMETHEUS,
            folder=CONTROLPLANE / "promtool",
            # Rules are evaluated without the libraries of clouds, in which targets are found.
            tags="remove_all_sd",
        ),
        Asset(
            name="vmi-oracle",
            package=".",
            pinned_by=AAQ,
            folder=CONTROLPLANE / "vmi-oracle",
            sources="*.go",
        ),
    )
}
OLDER_ASSETS = {
    asset.name: asset for minor in OLDER for asset in (_older(name, minor) for name in SERVERS)
}
"""Assets that only `make test-skew` needs."""
AAQ_TESTS = Asset(
    name="aaq-e2e",
    package=f"{AAQ}/tests",
    pinned_by=AAQ,
    folder=CONTROLPLANE / "aaq-e2e",
    is_test=True,
)
"""AAQ's own end-to-end tests. Only `make test-aaq` needs them."""

PACKAGES = {
    "seccomp": ("libseccomp-dev",),
    "node": (
        "busybox-static",
        "containernetworking-plugins",
        # nft, and the libraries that a small installation may lack:
        "nftables",
        "libbsd0",
        "libedit2",
        "libgmp10",
        "libjansson4",
        "libmd0",
        "libmnl0",
        "libnftables1",
        "libnftnl11",
        "libtinfo6",
        "libxtables12",
    ),
    "vm": ("linux-image-cloud-amd64", "qemu-system-x86"),
    # mkfs.xfs with its libraries:
    "xfs": ("xfsprogs", "libinih1", "liburcu8"),
    "shells": ("fish", "fish-common", "libpcre2-32-0", "zsh", "zsh-common"),
}
"""Debian packages that are downloaded and unpacked, never installed."""
FOLLOWED = {"vm": ("lib", "linux-image-", "qemu-system-", "seabios")}
"""Names begin so of those dependencies that are unpacked as well. The first of the packages above
depends on the newest kernel; libraries of the second one have other names in other releases."""


def ensure(name: str) -> Path:
    """Return the program's path, building it first if this version was never built here."""
    asset = {**ASSETS, **OLDER_ASSETS, AAQ_TESTS.name: AAQ_TESTS}[name]
    ready = _find_ready(asset)
    if ready is not None:
        return ready
    go = shutil.which("go")
    if go is None:
        raise AssetError("no Go toolchain found (`go` is not on PATH)")
    target = cache_folder() / f"{name}-{asset.version}-{_fingerprint(asset, go)}"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        # Tests that run side by side ask for the same programs at the same time.
        with _one_at_a_time(target.with_name(f"{target.name}.lock")):
            if not target.exists():
                _build(asset, go, target)
    return target


def ensure_packages(name: str) -> Path:
    """Return the folder of unpacked Debian packages, downloading them first if it is not there.

    They are those of the Debian release that this machine runs.
    """
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise AssetError(f"no Debian packages here (`{program}` is not on PATH)")
    wanted = PACKAGES[name]
    release = Path("/etc/os-release").read_bytes()
    followed = FOLLOWED.get(name, ())
    named = " ".join((*wanted, *followed)).encode()
    fingerprint = hashlib.sha256(named + release).hexdigest()[:16]
    target = cache_folder() / f"packages-{name}-{fingerprint}"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with _one_at_a_time(target.with_name(f"{target.name}.lock")):
            if not target.exists():
                _unpack(wanted, followed, target)
    return target


def cache_folder() -> Path:
    """Where built programs live: BURSAR_CACHE, else the user's cache folder."""
    explicit = os.environ.get("BURSAR_CACHE")
    if explicit:
        return Path(explicit)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bursar"


def _find_ready(asset: Asset) -> Path | None:
    if asset.sources:
        return None
    for variable in ("BURSAR_ASSETS", "KUBEBUILDER_ASSETS"):
        folder = os.environ.get(variable)
        if folder and os.access(Path(folder) / asset.name, os.X_OK):
            return Path(folder) / asset.name
    return None


def _fingerprint(asset: Asset, go: str) -> str:
    digest = hashlib.sha256(asset.linker_flags.encode())
    if asset.tags:
        digest.update(asset.tags.encode())
    digest.update(subprocess.run([go, "version"], capture_output=True, check=True).stdout)
    inputs = [asset.folder / "go.mod", asset.folder / "go.sum"]
    inputs += sorted(asset.folder.glob(asset.sources)) if asset.sources else []
    for path in inputs:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _build(asset: Asset, go: str, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        built = Path(scratch) / asset.name
        # -v names each package as it is compiled: the only progress Go tells of. To `go test` it
        # means something else.
        verb = ["test", "-c"] if asset.is_test else ["build", "-v"]
        command = [go, *verb, "-trimpath", "-ldflags", asset.linker_flags]
        command += ["-tags", asset.tags] if asset.tags else []
        said: list[str] = []
        with (
            _progress(f"building {asset.name} {asset.version}") as tell,
            subprocess.Popen(
                [*command, "-o", str(built), asset.package],
                cwd=asset.folder,
                env={**os.environ, **_linking(asset)},
                stderr=subprocess.PIPE,
                text=True,
            ) as process,
        ):
            assert process.stderr is not None
            for line in process.stderr:
                said.append(line)
                tell(len(said))
        if process.returncode != 0:
            problems = "".join(line for line in said if not re.fullmatch(r"[\w./~-]+\n", line))
            raise AssetError(f"{asset.name} does not build:\n{problems.strip()}")
        built.replace(target)


def _linking(asset: Asset) -> dict[str, str]:
    """The variables that tell Go whether to link C code, and where its library is."""
    if not asset.c_library:
        return {"CGO_ENABLED": "0"}
    if shutil.which("gcc") is None:
        raise AssetError(f"no C compiler for {asset.name} (`gcc` is not on PATH)")
    unpacked = ensure_packages(asset.c_library) / "usr"
    [library] = (unpacked / "lib").glob("*/*.a")
    return {
        "CGO_ENABLED": "1",
        "PKG_CONFIG": "true",  # which says nothing: the folders below are enough
        "CGO_CFLAGS": f"-I{unpacked / 'include'}",
        "CGO_LDFLAGS": f"-L{library.parent} -l{library.stem.removeprefix('lib')}",
    }


def _unpack(packages: tuple[str, ...], followed: tuple[str, ...], target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        print(f"downloading {', '.join(packages)} ...", file=sys.stderr, flush=True)
        if _download(packages, followed, scratch):
            print("a package was not found: apt-get update ...", file=sys.stderr, flush=True)
            subprocess.run(["apt-get", "-q", "update"], capture_output=True, check=False)
            problem = _download(packages, followed, scratch)
            if problem:
                raise AssetError(f"apt-get cannot download {', '.join(packages)}: {problem}")
        unpacked = Path(scratch) / "unpacked"
        for archive in sorted(Path(scratch).glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", archive, unpacked], check=True)
        unpacked.replace(target)


def _download(packages: tuple[str, ...], followed: tuple[str, ...], folder: str) -> str:
    """Download packages into the folder; returns what went wrong, or nothing."""
    dependencies = _dependencies(packages, followed) if followed else set()
    command = ["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download"]
    command += sorted({*packages, *dependencies})
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return " ".join(done.stderr.split()) or "failed" if done.returncode else ""


def _dependencies(packages: tuple[str, ...], followed: tuple[str, ...]) -> set[str]:
    """All packages that these depend on, directly or not, whose names begin as one of `followed`.

    Empty if apt-get knows nothing of the packages: it then fails to download them, and says so.
    """
    command = ["apt-cache", "depends", "--recurse", "--important", *packages]
    lines = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    return {line for line in lines if line.startswith(followed)}


@contextmanager
def _one_at_a_time(lock: Path) -> Iterator[None]:
    """Hold the lock: apt-get fails beside another apt-get, and two builds take twice the time."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _progress(title: str) -> Iterator[Callable[[int], None]]:
    """One line that counts on a terminal; elsewhere one line now and then."""
    started = told = time.monotonic()
    live = sys.stderr.isatty()
    print(f"{title} (the first time takes minutes) ...", file=sys.stderr, flush=True)

    def tell(packages: int) -> None:
        nonlocal told
        now = time.monotonic()
        if now - told >= (0.1 if live else QUIET_SECONDS):
            told = now
            end = "\r" if live else "\n"
            line = f"{title}: {packages} packages, {now - started:.0f} s"
            print(line, end=end, file=sys.stderr, flush=True)

    yield tell
    print(f"{title}: done in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        for wanted in sys.argv[1:] or ASSETS:
            print(ensure(wanted))
    except AssetError as error:
        print(f"assets: {error}", file=sys.stderr)
        sys.exit(1)
