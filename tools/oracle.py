"""Build the oracle: a Go program that answers with upstream Kubernetes code.

The binary is kept outside the tree, under a name made from everything that went
into it, so it is built once per version and shared by all clones on a machine.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CONTROLPLANE = Path(__file__).parents[1] / "controlplane"
SOURCES = CONTROLPLANE / "oracle"


class OracleUnavailableError(Exception):
    """There is no Go toolchain, or the build failed; the message says which."""


def cache_folder() -> Path:
    """Where built programs live: BURSAR_CACHE, else the user's cache folder."""
    explicit = os.environ.get("BURSAR_CACHE")
    if explicit:
        return Path(explicit)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bursar"


def kubernetes_version() -> str:
    """The upstream version pinned in controlplane/go.mod."""
    match = re.search(r"k8s\.io/kubernetes (v[0-9.]+)", (CONTROLPLANE / "go.mod").read_text())
    if match is None:
        raise OracleUnavailableError("controlplane/go.mod pins no k8s.io/kubernetes")
    return match.group(1)


def ensure_built() -> Path:
    """Return the oracle's path, building it first if this version was never built."""
    go = shutil.which("go")
    if go is None:
        raise OracleUnavailableError("no Go toolchain found (`go` is not on PATH)")
    target = cache_folder() / f"oracle-{kubernetes_version()}-{_fingerprint(go)}"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    print(
        f"building the oracle against Kubernetes {kubernetes_version()};"
        " the first time takes a few minutes ...",
        file=sys.stderr,
        flush=True,
    )
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        built = Path(folder) / "oracle"
        command = [go, "build", "-trimpath", "-ldflags", "-s -w", "-o", str(built), "./oracle"]
        run = subprocess.run(
            command,
            cwd=CONTROLPLANE,
            env={**os.environ, "CGO_ENABLED": "0"},
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        if run.returncode != 0:
            raise OracleUnavailableError(f"the oracle does not build:\n{run.stderr.strip()}")
        built.replace(target)
    return target


def _fingerprint(go: str) -> str:
    digest = hashlib.sha256()
    version = subprocess.run([go, "version"], capture_output=True, check=True)
    digest.update(version.stdout)
    for path in sorted([*SOURCES.glob("*.go"), CONTROLPLANE / "go.mod", CONTROLPLANE / "go.sum"]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


if __name__ == "__main__":
    try:
        print(ensure_built())
    except OracleUnavailableError as error:
        print(f"oracle: {error}", file=sys.stderr)
        sys.exit(1)
