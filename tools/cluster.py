"""`make cluster`: a real control plane on this machine until Ctrl-C, with simulated nodes.

`make cluster NODE=real` has a node with real containers instead, which takes root. That of
`make cluster NODE=vm` is in a virtual machine, so that it has cgroup v2 on every machine.
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
from real_node import RealNodeError, node, vm
from real_node.cluster import real_cluster
from real_node.images import BUSYBOX

PARTS = "etcd, kube-apiserver, kube-scheduler, kube-controller-manager, kwok"
NODE_PARTS = "containerd, kubelet, kube-proxy"
KINDS = {"real": node.RealNode, "vm": vm.VirtualNode}
MISSING = {"real": node.missing, "vm": vm.missing}
SIMULATED_NODES = 3
"""Only without a real node. Pods only seem to run on them, so that beside a real node a Deployment
could look ready without any process."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--nodes", type=int, help="simulated nodes (default: 3, beside a real one none)"
    )
    parser.add_argument(
        "--node",
        choices=list(KINDS),
        help="add a node with real containers: on this machine, or in a virtual machine",
    )
    options = parser.parse_args()
    default = 0 if options.node else SIMULATED_NODES
    nodes = options.nodes if options.nodes is not None else default
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    lacking = MISSING[options.node]() if options.node else None
    if lacking:
        _say(f"cluster: {lacking}")
        return 1
    try:
        kubectl = ensure("kubectl")
        with _real(options.node, nodes) if options.node else _simulated(nodes) as plane:
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
def _real(kind: str, nodes: int) -> Iterator[ControlPlane]:
    _say(f"starting {PARTS}, {NODE_PARTS} ...")
    with real_cluster(KINDS[kind], nodes=nodes) as started:
        _say(f"the node with real containers is {started.name}; it has the image {BUSYBOX}")
        yield started.plane


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
