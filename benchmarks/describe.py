"""The report of a pod with very many containers: how it grows with their number.

Four times as many sidecars, each with a resource of its own, against four times the report of the
fewer ones. A ratio near 1 is linear; if each sidecar were compared with each resource, it would
be 4.
"""

from collections.abc import Iterator

from bursar.app.reports.pod import pod_report
from bursar.core.model.pod import Container, Pod, ResourceRequirements
from bursar.core.model.quantity import Quantity
from ratio import Ratio, alternate

FEW, MANY = 1_000, 4_000
ROUNDS = 5


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


def measure() -> Iterator[Ratio]:
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
