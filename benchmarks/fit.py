"""Why 10,000 pods do not fit 5,000 nodes: the scheduler's message for each of them.

No two nodes have the same load, and no two pods the same request, so nothing can be answered
twice. Against: one look at each node for each pod, as the scheduler itself does it, measured on a
part of the pods and multiplied.
"""

from collections.abc import Iterator
from random import Random

from bursar.core.model.node import Node, Taint
from bursar.core.model.pod import Container, Pod, ResourceRequirements, Toleration
from bursar.core.model.quantity import MILLI, Format, Quantity
from bursar.core.placement.choice import choose
from bursar.core.placement.fit_index import FitIndex
from bursar.core.placement.node_books import NodeBooks
from ratio import Ratio, seconds

NODES, PODS = 5_000, 10_000
ONE_BY_ONE = 20
"""Pods of the part that is measured node by node."""
MI = 1 << 20


def a_pod(name: str, milli: int, mebi: int, **fields: object) -> Pod:
    requests = {
        "cpu": Quantity.of(milli, scale=MILLI),
        "memory": Quantity.of(mebi * MI, Format.BINARY_SI),
    }
    container = Container(name="c", resources=ResourceRequirements(requests=requests))
    return Pod(namespace="default", name=name, uid=name, containers=(container,), **fields)  # type: ignore[arg-type]


def nodes(rng: Random) -> list[NodeBooks]:
    """Pools of nodes in zones; some nodes are tainted or cordoned. Each has ten pods."""
    found = []
    for index in range(NODES):
        cores = rng.choice([8, 16, 32])
        allocatable = {
            "cpu": Quantity.of(cores),
            "memory": Quantity.of(cores * 4096 * MI, Format.BINARY_SI),
            "pods": Quantity.of(110),
        }
        node = Node(
            name=f"node-{index:05}",
            labels={
                "kubernetes.io/hostname": f"node-{index:05}",
                "topology.kubernetes.io/zone": rng.choice("abc"),
                "pool": rng.choice(["general", "batch", "gpu"]),
            },
            allocatable=allocatable,
            taints=(Taint(key="gpu", effect="NoSchedule"),) if rng.randrange(5) == 0 else (),
            unschedulable=rng.randrange(50) == 0,
        )
        pods = [
            a_pod(
                f"p{index}-{number}",
                cores * 90 + rng.randrange(20),
                cores * 380 + rng.randrange(90),
                priority=rng.choice([0, 0, 0, 1000]),
            )
            for number in range(10)
        ]
        found.append(NodeBooks(node, pods))
    return found


def waiting(rng: Random) -> list[Pod]:
    return [
        a_pod(
            f"w{index}",
            4_000 + index,
            16_384 + rng.randrange(4096),
            priority=rng.choice([0, 100]),
            node_selector=rng.choice([{}, {"pool": "batch"}, {"pool": "none"}]),
            tolerations=rng.choice([(), (Toleration(key="gpu", operator="Exists"),)]),
        )
        for index in range(PODS)
    ]


def measure() -> Iterator[Ratio]:
    rng = Random(1)  # noqa: S311 - the same cluster each time
    cluster, pods = nodes(rng), waiting(rng)
    answers: list[str | None] = []

    def indexed() -> None:
        index = FitIndex(cluster)
        answers.extend(index.message(pod) for pod in pods)

    ours = seconds(indexed)
    part = pods[:: PODS // ONE_BY_ONE]
    theirs = seconds(lambda: [choose(pod, cluster) for pod in part]) / len(part) * PODS
    for pod, answer in zip(part, answers[:: PODS // ONE_BY_ONE], strict=True):
        assert (choose(pod, cluster).message or None) == answer
    yield Ratio(
        f"fit, {PODS} pods, {NODES} nodes", ours, "node by node", theirs, "s", "<= 5 s, <= 0.01"
    )
