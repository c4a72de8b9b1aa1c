"""Build the kustomization of `-k` with the user's own kubectl or kustomize.

Bursar does not build kustomizations itself, so that the manifests are those that
`kubectl apply -k` would send.
"""

import shutil
import subprocess
from typing import Final

from bursar.adapters.files.manifests import ManifestError
from bursar.wire.structs.fields import printable

BUILDERS: Final = (("kubectl", "kustomize"), ("kustomize", "build"))
BUILD_SECONDS_MAX: Final = 60
_REASON_LENGTH_MAX: Final = 512


def built(folder: str) -> bytes:
    """The manifests of a kustomization. Raises `ManifestError`."""
    for program, verb in BUILDERS:
        path = shutil.which(program)
        if path is not None:
            return _run([path, verb, folder], folder)
    raise ManifestError("-k needs kubectl or kustomize, and neither is on the PATH")


def _run(command: list[str], folder: str) -> bytes:
    name = printable(folder, _REASON_LENGTH_MAX)
    try:
        # The program comes from the user's own PATH, and the folder is one argument of it.
        done = subprocess.run(  # noqa: S603 - see above
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=BUILD_SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ManifestError(f"{name}: not built after {BUILD_SECONDS_MAX} s") from None
    except OSError as error:
        raise ManifestError(f"{name}: {error.strerror}") from None
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise ManifestError(f"{name}: {printable(reason, _REASON_LENGTH_MAX)}")
    return done.stdout
