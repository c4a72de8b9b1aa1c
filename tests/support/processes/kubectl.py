"""The real kubectl, run against a control plane."""

import subprocess

from assets import ensure
from controlplane import ControlPlane
from support.processes.command_line import Ran

PATIENCE_S = 180


def try_kubectl(plane: ControlPlane, *arguments: str, stdin: str = "") -> Ran:
    """Run it, whatever comes of it. It sees nothing of the caller's environment."""
    done = subprocess.run(
        [str(ensure("kubectl")), "--kubeconfig", str(plane.kubeconfig), *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
        env={"HOME": str(plane.folder), "TZ": "UTC"},
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def kubectl(plane: ControlPlane, *arguments: str, stdin: str = "") -> str:
    """What it prints. It must succeed."""
    ran = try_kubectl(plane, *arguments, stdin=stdin)
    assert ran.code == 0, ran.err
    return ran.out
