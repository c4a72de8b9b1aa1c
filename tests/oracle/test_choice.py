"""The choice of a node: filters, scores and messages, against the scheduler's default plugins."""

from typing import Any

import pytest
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


# ------------------------------------------------------------------ rules about other pods

POD_LABELS = st.dictionaries(
    st.sampled_from(["app", "tier"]), st.sampled_from(["a", "b"]), max_size=2
)
DOMAINS = st.sampled_from(["zone", "disk", "kubernetes.io/hostname"])
LABEL_SELECTORS = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "matchLabels": POD_LABELS,
        "matchExpressions": st.lists(
            st.fixed_dictionaries(
                {
                    "key": st.sampled_from(["app", "tier"]),
                    "operator": st.sampled_from(["In", "NotIn"]),
                    "values": st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=2),
                }
            )
            | st.fixed_dictionaries(
                {
                    "key": st.sampled_from(["app", "tier"]),
                    "operator": st.sampled_from(["Exists", "DoesNotExist"]),
                }
            ),
            max_size=2,
        ),
    },
)
POD_TERMS = st.lists(
    st.fixed_dictionaries(
        {"labelSelector": LABEL_SELECTORS, "topologyKey": DOMAINS},
        optional={"namespaces": st.lists(st.sampled_from(["default", "other"]), max_size=2)},
    ),
    max_size=2,
).map(lambda terms: {"requiredDuringSchedulingIgnoredDuringExecution": terms})
SPREAD = st.lists(
    st.fixed_dictionaries(
        {
            "topologyKey": DOMAINS,
            "maxSkew": st.sampled_from([1, 1, 2]),
            "whenUnsatisfiable": st.sampled_from(["DoNotSchedule"] * 3 + ["ScheduleAnyway"]),
            "labelSelector": LABEL_SELECTORS,
        },
        optional={
            "minDomains": st.sampled_from([1, 2, 3]),
            "nodeAffinityPolicy": st.sampled_from(["Honor", "Ignore"]),
            "nodeTaintsPolicy": st.sampled_from(["Honor", "Ignore"]),
            "matchLabelKeys": st.lists(st.sampled_from(["app", "tier"]), max_size=1),
        },
    ),
    max_size=2,
)
PORTS = st.lists(
    st.fixed_dictionaries(
        {
            "containerPort": st.sampled_from([80, 81]),
            "hostPort": st.sampled_from([0, 80, 80, 81]),
        },
        optional={
            "protocol": st.sampled_from(["TCP", "UDP"]),
            "hostIP": st.sampled_from(["", "127.0.0.1", "10.0.0.1", "0.0.0.0"]),  # noqa: S104 - text
        },
    ),
    max_size=2,
)


@st.composite
def social_pods(draw: st.DrawFn, name: str, priority: int) -> Raw:
    """A pod with rules about others. A sidecar of it has ports as well."""
    pod = requesting(draw(AMOUNTS), name, priority)
    pod["metadata"] |= {
        "namespace": draw(st.sampled_from(["default", "default", "other"])),
        "labels": draw(POD_LABELS),
    }
    spec = pod["spec"]
    spec["containers"][0]["ports"] = draw(st.just([]) | PORTS)
    if draw(st.booleans()):
        sidecar = {"name": "s", "ports": draw(PORTS)}
        if draw(st.booleans()):
            sidecar["restartPolicy"] = "Always"
        spec["initContainers"] = [sidecar]
    spec["affinity"] = draw(
        st.fixed_dictionaries({}, optional={"podAffinity": POD_TERMS, "podAntiAffinity": POD_TERMS})
    )
    spec["hostNetwork"] = draw(st.sampled_from([False, False, False, True]))
    return pod


@st.composite
def social_clusters(draw: st.DrawFn) -> Raw:
    pod = draw(social_pods("incoming", draw(st.sampled_from([0, 10]))))
    pod["spec"] |= draw(
        st.fixed_dictionaries(
            {},
            optional={
                "nodeSelector": st.just({"zone": "a"}),
                "tolerations": TOLERATIONS,
                "topologySpreadConstraints": SPREAD,
            },
        )
    )
    nodes = []
    for i in range(draw(st.integers(1, 4))):
        labels = {**draw(LABELS), "kubernetes.io/hostname": f"n{i}"}
        placed = []
        for j in range(draw(st.integers(0, 3))):
            placed.append(draw(social_pods(f"n{i}p{j}", draw(st.sampled_from([0, 5])))))
            if draw(st.integers(0, 5)) == 0:
                placed[-1]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        nodes.append(
            {
                "node": {
                    "metadata": {"name": f"n{i}", "labels": labels},
                    "spec": {"taints": draw(st.just([]) | TAINTS)},
                    "status": {
                        "allocatable": {
                            "cpu": "4",
                            "memory": "8Gi",
                            "nvidia.com/gpu": "2",
                            "pods": draw(st.sampled_from(["2", "110"])),
                        }
                    },
                },
                "pods": placed,
            }
        )
    return {"nodes": nodes, "pod": pod}


PLAIN_SELECTORS = st.sampled_from(
    [
        *({"matchLabels": {"app": "a"}},) * 4,
        {"matchLabels": {"app": "b"}},
        {},
        None,
    ]
)


@st.composite
def spread_clusters(draw: st.DrawFn) -> Raw:
    """Nodes of few zones, and pods of one workload that must spread over them."""
    pod = requesting({}, "incoming", 10)
    pod["metadata"]["labels"] = {"app": draw(st.sampled_from(["a", "a", "b"]))}
    pod["spec"] |= {
        "topologySpreadConstraints": draw(
            st.lists(
                st.fixed_dictionaries(
                    {
                        "topologyKey": st.sampled_from(["zone", "kubernetes.io/hostname"]),
                        "maxSkew": st.sampled_from([1, 1, 1, 2]),
                        "whenUnsatisfiable": st.just("DoNotSchedule"),
                        "labelSelector": PLAIN_SELECTORS,
                        "minDomains": st.sampled_from([None, 2, 3]),
                        "nodeAffinityPolicy": st.sampled_from([None, "Honor", "Ignore"]),
                        "nodeTaintsPolicy": st.sampled_from([None, "Honor", "Ignore"]),
                    }
                ),
                min_size=1,
                max_size=2,
            )
        ),
        "nodeSelector": draw(st.sampled_from([{}, {}, {"pool": "x"}])),
    }
    nodes = []
    for i in range(draw(st.integers(2, 4))):
        labels = {"kubernetes.io/hostname": f"n{i}", "pool": draw(st.sampled_from("xxy"))}
        zone = draw(st.sampled_from(["a", "b", "c", None]))
        placed = []
        for j in range(draw(st.integers(0, 3))):
            other = requesting({}, f"n{i}p{j}", draw(st.sampled_from([0, 20])))
            other["metadata"]["labels"] = {"app": draw(st.sampled_from(["a", "a", "b"]))}
            if draw(st.integers(0, 3)) == 0:
                other["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            placed.append(other)
        node = {
            "metadata": {"name": f"n{i}", "labels": labels | ({"zone": zone} if zone else {})},
            "spec": {
                "taints": draw(st.sampled_from([[], [], [{"key": "k", "effect": "NoSchedule"}]]))
            },
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
        }
        nodes.append({"node": node, "pods": placed})
    return {"nodes": nodes, "pod": pod}


@pytest.mark.parametrize("kind", [social_clusters, spread_clusters], ids=lambda f: f.__name__)
def test_the_scheduler_judges_ports_affinity_and_spread_the_same(oracle, for_all, kind):
    def check(case: Raw) -> None:
        (upstream,) = oracle.ask("choice", cases=[case])
        mine = ours(case)
        found = {
            "fits": sorted(upstream["scores"]),
            "reasons": {name: sorted(texts) for name, texts in upstream["reasons"].items()},
            "message": upstream["message"],
        }
        mine = {"fits": sorted(mine.pop("scores")), **mine}
        oracle.assert_same(mine, found, about=case)

    for_all(kind(), check, examples=400)
