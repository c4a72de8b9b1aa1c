"""Placement: filter, scores, messages and the kubelet's own check, against the real plugins."""

from typing import Any

import pytest
from hypothesis import strategies as st

from bursar.core.model.defaulting import with_defaults
from bursar.core.model.pod import Pod
from bursar.core.model.quantity import MILLI, ZERO, Quantity
from bursar.core.placement.choice import choose
from bursar.core.placement.fit import (
    Shortfall,
    free,
    kubelet_refusal,
    shortfalls,
)
from bursar.core.placement.message import (
    Rejection,
    failure_text,
    kubelet_message,
    kubelet_reason,
    rejection_of,
)
from bursar.core.placement.node_books import NodeBooks
from bursar.core.placement.score import balanced_allocation, least_allocated
from bursar.core.placement.vector import Vector
from support.builders.random_objects import (
    HOSTILE_AMOUNT,
    HOSTILE_NAME,
    as_node,
    as_pod,
    pods,
)

Raw = dict[str, Any]

ROOM = {
    "cpu": st.sampled_from(["0", "1", "4", "16", "64", "3920m", "1k", "500m", "3"]),
    "memory": st.sampled_from(["0", "1Gi", "16Gi", "64Gi", "3Ti", "200M", "900Mi", "8Ei", "1000"]),
    "ephemeral-storage": st.sampled_from(["0", "10Gi", "100Gi", "5G"]),
    "pods": st.sampled_from(["0", "1", "2", "3", "110", "250"]),
    "hugepages-2Mi": st.sampled_from(["0", "4Mi", "1Gi"]),
    "hugepages-1Gi": st.sampled_from(["0", "1Gi", "8Gi"]),
    "example.com/foo": st.sampled_from(["0", "1", "5", "10", "4k"]),
    "nvidia.com/gpu": st.sampled_from(["0", "1", "8"]),
}
ROOMS = st.fixed_dictionaries({}, optional=ROOM)
HOSTILE_ROOMS = st.dictionaries(
    st.sampled_from(list(ROOM)) | HOSTILE_NAME, HOSTILE_AMOUNT | st.just("2000"), max_size=6
)
PRIORITIES = st.sampled_from([None, -10, 0, 5, 1000])


def named(raw: Raw, name: str, priority: int | None) -> Raw:
    raw["metadata"] = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    if "resources" in raw["spec"]:
        # Upstream adds overhead to large pod-level amounts in place, inside the pod it was
        # given, so that its answer depends on how often it was asked before.
        raw["spec"].pop("overhead", None)
    if priority is not None:
        raw["spec"]["priority"] = priority
    return raw


@st.composite
def clusters(draw: st.DrawFn, *, hostile: bool, nodes: tuple[int, int] = (2, 4)) -> Raw:
    """Nodes with pods on them, and a pod that looks for a place."""
    rooms = ROOMS | HOSTILE_ROOMS if hostile else ROOMS
    return {
        "nodes": [
            {
                "node": {"metadata": {"name": f"n{i}"}, "status": {"allocatable": draw(rooms)}},
                "pods": [
                    named(draw(pods(hostile=hostile)), f"n{i}p{j}", draw(PRIORITIES))
                    for j in range(draw(st.integers(0, 3)))
                ],
            }
            for i in range(draw(st.integers(*nodes)))
        ],
        "pod": named(draw(pods(hostile=hostile)), "incoming", draw(PRIORITIES)),
    }


def requesting(amounts: dict[str, str], name: str = "probe", priority: int | None = None) -> Raw:
    container = {"name": "c", "resources": {"requests": amounts}}
    return named({"spec": {"containers": [container]}}, name, priority)


SCORED = [{"name": name, "weight": 1} for name in ("cpu", "memory")]
DEFAULT_ARGUMENTS = {
    "ignoredResources": [],
    "ignoredResourceGroups": [],
    "deviceResources": [],
    "strategies": [{"Type": "LeastAllocated", "Resources": SCORED}],
    "balanced": SCORED,
}
"""What the plugins that filter and score are given in the default profile."""


def stored(raw: Raw) -> Pod:
    return with_defaults(as_pod(raw))


def books_of(entry: Raw) -> NodeBooks:
    return NodeBooks(as_node(entry["node"]), [stored(pod) for pod in entry["pods"]])


def vector_view(vector: Vector) -> Raw:
    return {
        "milliCpu": vector.milli_cpu,
        "memory": vector.memory,
        "ephemeralStorage": vector.ephemeral_storage,
        "pods": vector.pods,
        "scalars": dict(vector.scalars),
    }


def without_zeros(vector: Raw) -> Raw:
    return {**vector, "scalars": {name: n for name, n in vector["scalars"].items() if n}}


def lack_view(lack: Shortfall) -> Raw:
    return {
        "ResourceName": lack.resource,
        "Reason": lack.reason,
        "Requested": lack.requested,
        "Used": lack.used,
        "Capacity": lack.allocatable,
        "Unresolvable": not lack.eviction_may_help,
    }


def our_placement(question: Raw, books: NodeBooks) -> Raw:
    pod = stored(question["pod"])
    lacks = shortfalls(pod, books)
    is_hopeless = not rejection_of(books, lacks).eviction_may_help
    refused = "UnschedulableAndUnresolvable" if is_hopeless else "Unschedulable"
    return {
        "code": refused if lacks else "Success",
        "reasons": sorted(lack.reason for lack in lacks),
        "insufficient": [lack_view(lack) for lack in lacks],
        "allocatable": vector_view(books.allocatable),
        "requested": vector_view(books.taken),
        "nonZero": vector_view(books.weighed),
        "scores": [least_allocated(pod, books)],
        "balanced": balanced_allocation(pod, books),
    }


NATIVE_ORDER = ["pods", "cpu", "memory", "ephemeral-storage"]


def in_our_order(insufficient: list[Raw]) -> list[Raw]:
    """Upstream walks a map of scalar resources in random order; ours is by name."""
    return sorted(
        insufficient,
        key=lambda lack: (
            NATIVE_ORDER.index(lack["ResourceName"])
            if lack["ResourceName"] in NATIVE_ORDER
            else len(NATIVE_ORDER),
            lack["ResourceName"],
        ),
    )


def compare_placements(oracle: Any, cases: list[Raw]) -> None:
    asked = [{**case, **DEFAULT_ARGUMENTS} for case in cases]
    for case, nodes in zip(cases, oracle.ask("placement", cases=asked), strict=True):
        for entry, answer in zip(case["nodes"], nodes, strict=True):
            answer["reasons"] = sorted(answer["reasons"] or [])
            answer["insufficient"] = in_our_order(answer["insufficient"])
            answer["requested"] = without_zeros(answer["requested"])
            ours = our_placement(case, books_of(entry))
            for aspect, expected in answer.items():
                oracle.assert_same(ours[aspect], expected, about=(aspect, entry, case))


@pytest.mark.parametrize("hostile", [False, True], ids=["ordinary", "what the API would refuse"])
def test_filter_and_scores_agree(oracle, for_all, hostile):
    for_all(
        st.lists(clusters(hostile=hostile), min_size=1, max_size=3),
        lambda cases: compare_placements(oracle, cases),
        examples=25,
    )


def our_message(case: Raw) -> str:
    books = [books_of(entry) for entry in case["nodes"]]
    return choose(stored(case["pod"]), books).message


@st.composite
def crowded(draw: st.DrawFn) -> Raw:
    """Nodes that are full of small pods, some of which may have to give way."""

    def plain(name: str, priorities: st.SearchStrategy[int | None]) -> Raw:
        amounts = {"cpu": draw(st.sampled_from(["1", "2", "3", "5"])), "memory": "1Gi"}
        return requesting(amounts, name, draw(priorities))

    room = st.fixed_dictionaries(
        {"cpu": st.just("4"), "memory": st.just("16Gi"), "pods": st.sampled_from(["2", "110"])}
    )
    return {
        "nodes": [
            {
                "node": {"metadata": {"name": f"n{i}"}, "status": {"allocatable": draw(room)}},
                "pods": [plain(f"n{i}p{j}", PRIORITIES) for j in range(draw(st.integers(1, 3)))],
            }
            for i in range(draw(st.integers(1, 3)))
        ],
        "pod": plain("incoming", st.sampled_from([None, 5, 1000])),
    }


def never_preempting(case: Raw) -> Raw:
    case["pod"]["spec"]["preemptionPolicy"] = "Never"
    return case


def test_the_message_of_a_real_scheduling_attempt_agrees(agree):
    cases = clusters(hostile=False, nodes=(1, 4)) | crowded()
    cases = cases | cases | cases.map(never_preempting)
    agree("placement_message", cases=cases, ours=our_message, batch=(1, 4), examples=30)


REASONS = st.sampled_from(
    ["Insufficient cpu", "Insufficient memory", "Too many pods", "node(s) had a taint", "", "ä"]
)
FAILURES = st.fixed_dictionaries(
    {
        "nodeCount": st.integers(0, 14),
        "nodes": st.dictionaries(
            st.integers(0, 40).map("n{}".format), st.lists(REASONS, max_size=3), max_size=14
        ),
        "absent": st.lists(REASONS, max_size=2, unique=True),
        "preFilter": st.sampled_from(["", "", "persistentvolumeclaim not found"]),
        "postFilter": st.sampled_from(["", "preemption: nothing", "no claims, preemption: no."]),
    }
)


def test_the_count_of_reasons_agrees(agree):
    def ours(case: Raw) -> str:
        rejections = [
            Rejection(node=name, reasons=tuple(reasons), eviction_may_help=True)
            for name, reasons in case["nodes"].items()
        ]
        return failure_text(
            rejections,
            node_count=case["nodeCount"],
            absent_reasons=case["absent"],
            pre_filter=case["preFilter"],
            post_filter=case["postFilter"],
        )

    agree("fit_error", cases=FAILURES, ours=ours, batch=(10, 30), examples=30)


def our_admission(case: Raw) -> Raw:
    books = books_of(case["nodes"][0])
    lack = kubelet_refusal(stored(case["pod"]), books)
    if lack is None:
        return {"admit": True, "reason": "", "message": ""}
    return {"admit": False, "reason": kubelet_reason(lack), "message": kubelet_message(lack)}


def one_scalar_at_most(raw: Raw) -> Raw:
    """Upstream reports one lack only, and among scalars leaves it to chance which."""
    spec = raw["pod"]["spec"]
    lists = [
        amounts
        for holder in (*spec["containers"], *spec["initContainers"])
        for amounts in holder["resources"].values()
    ]
    for amounts in lists:
        for name in set(amounts) - {"cpu", "memory", "ephemeral-storage", "example.com/foo"}:
            del amounts[name]
    spec.pop("resources", None)
    return raw


def test_the_kubelets_own_check_agrees(agree):
    single = clusters(hostile=False, nodes=(1, 1)) | clusters(hostile=True, nodes=(1, 1))
    cases = single.map(one_scalar_at_most)
    agree("kubelet_admission", cases=cases, ours=our_admission, batch=(1, 6), examples=30)


def test_what_is_free_is_what_a_pod_may_still_ask_for(oracle, for_all):
    """The scheduler accepts a pod of exactly the free amounts, and refuses one of any more."""

    def check(case: Raw) -> None:
        entry = case["nodes"][0]
        books = books_of(entry)
        left = free(books)
        if left.pop("pods", ZERO).is_zero:
            return
        # Close to the end of an int64 "any more" is less than nothing.
        plain = {name: amount for name, amount in left.items() if amount < BEYOND_ANY_NODE}
        exact = requesting({name: str(amount) for name, amount in plain.items()})
        probes = [exact] + [
            requesting({name: str(amount + Quantity.of(1, scale=MILLI))})
            for name, amount in plain.items()
        ]
        cases = [
            {"nodes": [entry], "pod": probe, "balanced": [{"name": "cpu", "weight": 1}]}
            for probe in probes
        ]
        answers = [nodes[0]["code"] for nodes in oracle.ask("placement", cases=cases)]
        accepted = [code == "Success" for code in answers]
        oracle.assert_same([True] + [False] * len(plain), accepted, about=entry)

    for_all(clusters(hostile=False, nodes=(1, 1)), check, examples=15)


BEYOND_ANY_NODE = Quantity.parse("1Ei")
