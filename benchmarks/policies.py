"""Evaluating the expressions of CountingPolicies, and what a pod kept whole costs."""

import json
import sys
from collections.abc import Callable, Iterator
from itertools import cycle

from bursar.adapters.cel.language import open_language
from bursar.core.cel.code import Frame
from bursar.core.counting.policy import BUDGET, VARIABLES, PolicyText, compile_policy, evaluate
from bursar.core.model.quantity import Quantity
from bursar.wire.counting.pod_body import keep_body
from bursar.wire.counting.policy import read_body
from pod_bodies import pod_bodies
from ratio import Ratio, alternate

COUNT = 20_000
EXPRESSIONS = {
    "one label": "object.metadata.?labels['app'] == optional.of('web')",
    "loop over containers": "object.spec.containers.exists(c, c.name == 'last')",
    "quantities": "native['requests.cpu'].add(native['requests.cpu'])",
    "owner and label": "has(object.metadata.labels) && 'app' in object.metadata.labels",
}


def measure() -> Iterator[Ratio]:
    language = open_language()
    (body,) = pod_bodies(1)
    pod = json.loads(body)
    values = {"object": pod, "native": {"requests.cpu": Quantity.parse("500m")}}

    def repeat(work: Callable[[], object]) -> Callable[[], None]:
        def run() -> None:
            for _ in range(COUNT):
                work()

        return run

    for name, text in EXPRESSIONS.items():
        code = language.compile(text, VARIABLES).code
        ours, bare = alternate(
            repeat(lambda code=code: code(Frame(values, BUDGET))),
            repeat(lambda: pod["metadata"].get("labels", {}).get("app") == "web"),
            3,
        )
        yield Ratio(name, COUNT / ours, "plain Python", COUNT / bare, "evaluations/s", ">= 50,000")
    policy = compile_policy(
        PolicyText(name="p", match=EXPRESSIONS["one label"], charges={"x": "1"}), language
    )
    kept = keep_body(body)
    ours, bare = alternate(
        repeat(lambda: evaluate(policy, {"object": read_body(kept), "native": {}})),
        repeat(lambda: json.loads(body)),
        3,
    )
    yield Ratio("pod, body unpacked and judged", COUNT / ours, "json.loads", COUNT / bare, "pods/s")
    # Two pods in turn: the latest answer is remembered, for counters that keep the same pod.
    turns = cycle(pod_bodies(2))
    ours, bare = alternate(
        repeat(lambda: keep_body(next(turns))), repeat(lambda: json.loads(body)), 3
    )
    yield Ratio("keeping a pod whole", COUNT / ours, "json.loads", COUNT / bare, "pods/s")
    print(f"a pod of {len(body)} bytes is kept in {sys.getsizeof(kept.packed)} bytes")
