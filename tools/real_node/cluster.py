"""A control plane and a real node together, started and ended as one."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TypeVar

from controlplane import ControlPlane
from real_node.network import NodeNetwork
from real_node.node import RealNode
from real_node.vm import VirtualNode

AnyNode = TypeVar("AnyNode", RealNode, VirtualNode)


@contextmanager
def real_cluster(
    kind: type[AnyNode] = RealNode,
    *,
    nodes: int = 0,
    audit_policy: Mapping[str, object] | None = None,
) -> Iterator[AnyNode]:
    """Start a control plane with a real node and so many simulated ones; `plane` is on the node."""
    with ExitStack() as ends:
        network = NodeNetwork.claim()
        ends.callback(network.release)
        plane = ControlPlane(
            address=network.host_address,
            service_range=network.service_range,
            audit_policy=audit_policy,
        )
        ends.callback(plane.stop)
        node = kind(plane, network)
        plane.start(nodes=nodes)
        ends.callback(node.stop)
        node.start()
        yield node
