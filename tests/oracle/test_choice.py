"""The choice of a node: filters, scores and messages, against the scheduler's default plugins."""

from typing import Any

from hypothesis import strategies as st

from bursar.core.model.defaulting import with_defaults
from bursar.core.placement.choice import choose
from bursar.core.placement.filters import NOT_AMONG_NAMED
from bursar.core.placement.node_books import NodeBooks
from support.builders.random_objects import as_node, as_pod

Raw = dict[str, Any]

KEYS = st.sampled_from(["zone", "disk", "example.com/gpu", "a b", ""])
VALUES = st.sampled_from(["a", "b", "7", "12", "", "no/value"])
EFFECTS = st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule", "", "Other"])
TAINTS = st.lists(
    st.fixed_dictionaries({"key": KEYS, "value": VALUES, "effect": EFFECTS}), max_size=3
)
LABELS = st.dictionaries(
    st.sampled_from(["zone", "disk", "example.com/gpu"]),
    st.sampled_from(["a", "b", "7", "12", ""]),
    max_size=3,
)
TOLERATIONS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "key": KEYS | st.just("node.kubernetes.io/unschedulable"),
            "operator": st.sampled_from(["Exists", "Equal", "", "Lt", "Gt", "Never"]),
            "value": VALUES,
            "effect": EFFECTS,
        },
    ),
    max_size=3,
)
NAMES = st.sampled_from(["n0", "n1", "n2", "elsewhere"])
EXPRESSIONS = st.fixed_dictionaries(
    {
        "key": KEYS,
        "operator": st.sampled_from(
            ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Near"] + ["In"] * 4
        ),
        "values": st.lists(VALUES, max_size=2),
    }
)
FIELDS = st.fixed_dictionaries(
    {
        "key": st.sampled_from(["metadata.name", "metadata.name", "metadata.name", "spec.x"]),
        "operator": st.sampled_from(["In", "In", "In", "NotIn", "Exists"]),
        "values": st.lists(NAMES, min_size=1, max_size=1)
        | st.lists(NAMES | st.just(""), max_size=2),
    }
)
TERMS = st.fixed_dictionaries(
    {},
    optional={
        "matchExpressions": st.lists(EXPRESSIONS, max_size=2),
        "matchFields": st.lists(FIELDS, max_size=2),
    },
)
AFFINITY = st.fixed_dictionaries(
    {},
    optional={
        "requiredDuringSchedulingIgnoredDuringExecution": st.fixed_dictionaries(
            {"nodeSelectorTerms": st.lists(TERMS, max_size=3)}
        )
    },
)
NAMED_AFFINITY = st.lists(
    st.fixed_dictionaries({"matchFields": st.lists(FIELDS, min_size=1, max_size=2)}),
    min_size=1,
    max_size=2,
).map(
    lambda terms: {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
)
AMOUNTS = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.sampled_from(["0", "100m", "500m", "1", "3"]),
        "memory": st.sampled_from(["0", "64Mi", "1Gi", "3Gi"]),
        "nvidia.com/gpu": st.sampled_from(["0", "1", "2"]),
    },
)


def requesting(amounts: dict[str, str], name: str, priority: int) -> Raw:
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {
            "priority": priority,
            "containers": [{"name": "c", "resources": {"requests": amounts, "limits": amounts}}],
        },
    }


@st.composite
def clusters(draw: st.DrawFn) -> Raw:
    """Few nodes with room for little, and a pod that is particular about where it goes."""
    pod = requesting(draw(AMOUNTS), "incoming", draw(st.sampled_from([0, 10])))
    pod["spec"] |= draw(
        st.fixed_dictionaries(
            {},
            optional={
                "tolerations": TOLERATIONS,
                "nodeSelector": LABELS,
                "nodeName": NAMES,
                "affinity": st.fixed_dictionaries({"nodeAffinity": AFFINITY | NAMED_AFFINITY}),
            },
        )
    )
    return {
        "nodes": [
            {
                "node": {
                    "metadata": {"name": f"n{i}", "labels": draw(LABELS)},
                    "spec": {
                        "taints": draw(st.just([]) | TAINTS),
                        "unschedulable": draw(st.sampled_from([False, False, False, True])),
                    },
                    "status": {
                        "allocatable": {
                            "cpu": draw(st.sampled_from(["1", "4", "3920m"])),
                            "memory": draw(st.sampled_from(["1Gi", "8Gi"])),
                            "nvidia.com/gpu": draw(st.sampled_from(["0", "2"])),
                            "pods": draw(st.sampled_from(["2", "110"])),
                        }
                    },
                },
                "pods": [
                    requesting(draw(AMOUNTS), f"n{i}p{j}", draw(st.sampled_from([0, 5])))
                    for j in range(draw(st.integers(0, 2)))
                ],
            }
            for i in range(draw(st.integers(1, 3)))
        ],
        "pod": pod,
    }


def ours(case: Raw) -> Raw:
    nodes = [
        NodeBooks(as_node(entry["node"]), [with_defaults(as_pod(raw)) for raw in entry["pods"]])
        for entry in case["nodes"]
    ]
    choice = choose(with_defaults(as_pod(case["pod"])), nodes)
    return {
        "scores": dict(choice.scores),
        "reasons": {
            rejection.node: sorted(rejection.reasons)
            for rejection in choice.rejections
            if rejection.reasons != (NOT_AMONG_NAMED,)
        },
        "message": choice.message,
    }


def test_the_scheduler_accepts_scores_and_refuses_the_same_nodes(oracle, for_all):
    def check(case: Raw) -> None:
        (upstream,) = oracle.ask("choice", cases=[case])
        reasons = {name: sorted(texts) for name, texts in upstream["reasons"].items()}
        oracle.assert_same(ours(case), upstream | {"reasons": reasons}, about=case)

    for_all(clusters(), check, examples=300)
