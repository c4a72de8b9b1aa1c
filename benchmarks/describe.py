"""`describe` at its limits: a pod with very many containers, and a file with very many pods.

Four times as many sidecars, each with a resource of its own, against four times the report of the
fewer ones. A ratio near 1 is linear; if each sidecar were compared with each resource, it would
be 4.

All nodes of 20,000 pods, as `kubectl get -o json` prints them, against reading the same file with
`json.loads`. Both run in processes of their own, so that neither pays for the other's memory.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from bursar.app.reports.pod import pod_report
from bursar.core.model.pod import Container, Pod, ResourceRequirements
from bursar.core.model.quantity import Quantity
from pod_bodies import pod_bodies
from ratio import Ratio, alternate

FEW, MANY = 1_000, 4_000
ROUNDS = 5
PODS, NODES = 20_000, 100
FILE_ROUNDS = 3
READ = "import json, pathlib, sys; json.loads(pathlib.Path(sys.argv[1]).read_text())"
DESCRIBE = "import sys; from bursar.entry.command import main; main()"


def with_sidecars(count: int) -> Pod:
    one = Quantity.of(1)
    sidecars = tuple(
        Container(
            name=f"s{index}",
            restart_policy="Always",
            resources=ResourceRequirements(
                requests={f"example.com/r{index}": one, "cpu": one},
                limits={f"example.com/r{index}": one},
            ),
        )
        for index in range(count)
    )
    return Pod(
        namespace="default",
        name="wide",
        containers=(Container(name="main"),),
        init_containers=sidecars,
    )


def kubectls_dump() -> str:
    """Nodes, and pods that all have one, as `kubectl get nodes,pods -A -o json` prints them."""
    offered = {"cpu": "1000", "memory": "4Ti", "pods": "1000"}
    items = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"node-{number}"},
            "status": {"capacity": offered, "allocatable": offered},
        }
        for number in range(NODES)
    ]
    for number, body in enumerate(pod_bodies(PODS)):
        pod = json.loads(body)
        del pod["metadata"]["managedFields"]
        pod["spec"]["nodeName"] = f"node-{number % NODES}"
        pod["spec"].pop("schedulingGates", None)
        items.append(pod)
    return json.dumps({"apiVersion": "v1", "items": items, "kind": "List"}, indent=4)


def ran(program: str, *arguments: str) -> None:
    command: Sequence[str] = (sys.executable, "-c", program, *arguments)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def of_a_dump() -> Ratio:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "dump.json"
        path.write_text(kubectls_dump())
        ours, theirs = alternate(
            lambda: ran(DESCRIBE, "describe", "node", "-f", str(path)),
            lambda: ran(READ, str(path)),
            FILE_ROUNDS,
        )
    return Ratio(
        f"describe node, {PODS} pods", ours * 1000, "json.loads", theirs * 1000, "ms", "<= 3"
    )


def measure() -> Iterator[Ratio]:
    yield of_a_dump()
    few, many = with_sidecars(FEW), with_sidecars(MANY)
    ours, theirs = alternate(lambda: pod_report(many), lambda: pod_report(few), ROUNDS)
    factor = MANY // FEW
    yield Ratio(
        f"describe, {MANY} sidecars",
        ours * 1000,
        f"{factor} x {FEW} sidecars",
        theirs * factor * 1000,
        "ms",
        "<= 1.5",
    )
