"""Programs built from upstream Go modules: the oracle, and the parts of a real control plane.

Each is built once per version and kept outside the tree, under a name made from
everything that went into it, so all clones on a machine share it. A folder of
ready binaries can be given instead, in BURSAR_ASSETS or KUBEBUILDER_ASSETS.
"""

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


def _pinned(name: str, module: str, package: str) -> Asset:
    return Asset(name=name, package=package, pinned_by=module, folder=CONTROLPLANE / name)


ASSETS = {
    asset.name: asset
    for asset in (
        _ours("oracle"),
        _ours("podresources"),
        _ours("kubelet-http"),
        _kubernetes("kube-apiserver"),
        _kubernetes("kube-scheduler"),
        _kubernetes("kube-controller-manager"),
        _kubernetes("kubectl"),
        _kubernetes("kubemark"),
        _pinned("etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3"),
        _pinned("kwok", "sigs.k8s.io/kwok", "sigs.k8s.io/kwok/cmd/kwok"),
        Asset(
            name="aaq-sidecar",
            package=".",
            pinned_by="kubevirt.io/application-aware-quota",
            folder=CONTROLPLANE / "aaq-sidecar",
            sources="*.go",
        ),
        _pinned("helm", "helm.sh/helm/v4", "helm.sh/helm/v4/cmd/helm"),
        Asset(
            name="vmi-oracle",
            package=".",
            pinned_by="kubevirt.io/application-aware-quota",
            folder=CONTROLPLANE / "vmi-oracle",
            sources="*.go",
        ),
    )
}


def ensure(name: str) -> Path:
    """Return the program's path, building it first if this version was never built here."""
    asset = ASSETS[name]
    ready = _find_ready(asset)
    if ready is not None:
        return ready
    go = shutil.which("go")
    if go is None:
        raise AssetError("no Go toolchain found (`go` is not on PATH)")
    target = cache_folder() / f"{name}-{asset.version}-{_fingerprint(asset, go)}"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        _build(asset, go, target)
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
    digest.update(subprocess.run([go, "version"], capture_output=True, check=True).stdout)
    inputs = [asset.folder / "go.mod", asset.folder / "go.sum"]
    inputs += sorted(asset.folder.glob(asset.sources)) if asset.sources else []
    for path in inputs:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _build(asset: Asset, go: str, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        built = Path(scratch) / asset.name
        # -v names each package as it is compiled: the only progress Go tells of.
        command = [go, "build", "-v", "-trimpath", "-ldflags", asset.linker_flags]
        said: list[str] = []
        with (
            _progress(f"building {asset.name} {asset.version}") as tell,
            subprocess.Popen(
                [*command, "-o", str(built), asset.package],
                cwd=asset.folder,
                env={**os.environ, "CGO_ENABLED": "0"},
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
