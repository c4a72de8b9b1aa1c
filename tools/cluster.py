"""`make cluster`: a real control plane on loopback until Ctrl-C, with simulated nodes."""

import argparse
import signal
import sys
import threading

from assets import AssetError, ensure
from controlplane import ControlPlane
from program import ProgramError


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=3, help="simulated nodes (default: 3)")
    options = parser.parse_args()
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    try:
        kubectl = ensure("kubectl")
        plane = ControlPlane()
        print(
            "starting etcd, kube-apiserver, kube-scheduler, kube-controller-manager, kwok ...",
            file=sys.stderr,
            flush=True,
        )
        plane.start(nodes=options.nodes)
    except (AssetError, ProgramError) as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1
    print(plane.kubeconfig, flush=True)
    print(
        f"\n  export KUBECONFIG={plane.kubeconfig}\n  {kubectl} get nodes\n\nCtrl-C stops it.",
        file=sys.stderr,
        flush=True,
    )
    try:
        ended.wait()
    finally:
        print("stopping ...", file=sys.stderr)
        plane.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
