"""`top nodes` and `top pods --group-by owner` of very many pods.

Four times as many nodes and pods, against four times the report of the fewer ones. A ratio near 1
is linear; if each node were compared with each pod, it would be 4. And the whole command on 20,000
pods, against reading the same file with `json.loads`.
"""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from bursar.app.reports.top.consumption import counted_pods, node_lines
from bursar.core.model.node import Node
from bursar.core.model.pod import Container, Pod, ResourceRequirements
from bursar.core.model.quantity import Quantity
from describe import DESCRIBE, FILE_ROUNDS, PODS, READ, kubectls_dump, ran
from ratio import Ratio, alternate

FEW, MANY = 1_000, 4_000
PODS_PER_NODE = 5
ROUNDS = 5


def a_cluster(nodes: int) -> tuple[list[Node], list[Pod]]:
    offered = {"cpu": Quantity.of(64), "memory": Quantity.of(2**38), "pods": Quantity.of(110)}
    asked = ResourceRequirements(requests={"cpu": Quantity.of(1), "memory": Quantity.of(2**30)})
    containers = (Container(name="main", resources=asked),)
    return (
        [Node(name=f"n{number}", allocatable=offered) for number in range(nodes)],
        [
            Pod(
                namespace="d",
                name=f"p{number}",
                node_name=f"n{number % nodes}",
                containers=containers,
            )
            for number in range(nodes * PODS_PER_NODE)
        ],
    )


def report(cluster: tuple[list[Node], list[Pod]]) -> None:
    nodes, pods = cluster
    node_lines(nodes, counted_pods(pods, {}), {})


def measure() -> Iterator[Ratio]:
    few, many = a_cluster(FEW), a_cluster(MANY)
    ours, theirs = alternate(lambda: report(many), lambda: report(few), ROUNDS)
    factor = MANY // FEW
    yield Ratio(
        f"top nodes, {MANY} nodes",
        ours * 1000,
        f"{factor} x {FEW} nodes",
        theirs * factor * 1000,
        "ms",
        "<= 1.5",
    )
    with TemporaryDirectory() as folder:
        path = Path(folder) / "dump.json"
        path.write_text(kubectls_dump())
        for words in (["nodes"], ["pods", "--group-by", "owner"]):
            ours, theirs = alternate(
                lambda words=words: ran(DESCRIBE, "top", *words, "-f", str(path)),
                lambda: ran(READ, str(path)),
                FILE_ROUNDS,
            )
            what = f"top {words[0]}, {PODS} pods"
            yield Ratio(what, ours * 1000, "json.loads", theirs * 1000, "ms")
