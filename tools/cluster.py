"""`make cluster`: a real control plane on this machine until Ctrl-C, with simulated nodes.

`make cluster NODE=real` has a node with real containers instead, which takes root.
"""

import argparse
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from assets import AssetError, ensure
from controlplane import ControlPlane
from program import ProgramError
from real_node import RealNodeError
from real_node.cluster import real_cluster
from real_node.images import BUSYBOX
from real_node.node import missing

PARTS = "etcd, kube-apiserver, kube-scheduler, kube-controller-manager, kwok"
NODE_PARTS = "containerd, kubelet, kube-proxy"
NODES = {None: 3, "real": 0}
"""Simulated nodes, by the kind of the other node. Pods only seem to run on them, so that beside a
real node a Deployment could look ready without any process."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--nodes", type=int, help="simulated nodes (default: 3, beside a real one none)"
    )
    parser.add_argument("--node", choices=["real"], help="add a node with real containers")
    options = parser.parse_args()
    nodes = options.nodes if options.nodes is not None else NODES[options.node]
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    lacking = missing() if options.node else None
    if lacking:
        _say(f"cluster: {lacking}")
        return 1
    try:
        kubectl = ensure("kubectl")
        with _real(nodes) if options.node else _simulated(nodes) as plane:
            print(plane.kubeconfig, flush=True)
            _say(f"\n  export KUBECONFIG={plane.kubeconfig} KUBECTL={kubectl}")
            _say("  $KUBECTL get nodes\n")
            _say("Ctrl-C stops it.")
            ended.wait()
            _say("stopping ...")
    except (AssetError, ProgramError, RealNodeError) as error:
        _say(f"cluster: {error}")
        return 1
    return 0


@contextmanager
def _simulated(nodes: int) -> Iterator[ControlPlane]:
    plane = ControlPlane()
    _say(f"starting {PARTS} ...")
    plane.start(nodes=nodes)
    try:
        yield plane
    finally:
        plane.stop()


@contextmanager
def _real(nodes: int) -> Iterator[ControlPlane]:
    _say(f"starting {PARTS}, {NODE_PARTS} ...")
    with real_cluster(nodes=nodes) as node:
        _say(f"the node with real containers is {node.name}; it has the image {BUSYBOX}")
        yield node.plane


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
