"""Validation: every complaint of upstream about resources, as full text, on creation and change."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import strategies as st

from bursar.core.model.defaulting import with_defaults
from bursar.core.model.problem import (
    JsonText,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    render_invalid,
    required,
)
from bursar.core.model.quantity import Quantity
from bursar.core.model.validation.node import validate_node
from bursar.core.model.validation.pod import (
    pod_warnings,
    validate_gate_update,
    validate_pod,
    validate_pod_spec,
)
from bursar.core.model.validation.resize import validate_resize
from support.builders.random_objects import (
    HOSTILE_AMOUNT,
    HOSTILE_AMOUNTS,
    HOSTILE_NAME,
    KNOWN,
    amounts,
    as_node,
    as_pod,
    pods,
    requirements,
)

Raw = dict[str, Any]

# Not about resources, and true of every pod that has ephemeral containers when it is created.
ON_CREATE_ONLY = "spec.ephemeralContainers: Forbidden: cannot be set on create"


def bare_pod(resources: Raw, /, **spec: Any) -> Raw:
    container = {"name": "c0", "image": "example.com/app", "resources": resources}
    metadata = {"name": "web", "namespace": "default"}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}


def texts(problems: Any) -> list[str]:
    return sorted(str(problem) for problem in problems)


# ------------------------------------------------------------------ rendering

# Characters whose notation differs between Go and JSON, or between the two and Python.
CHARACTERS = (
    "aZ0 '\"\\/<>&\a\b\f\n\r\t\v\0\x01\x1b\x1f\x7f\x80\x85\x9f\xa0\xad"
    "éß€中\u00ff\u0300\u061c\u200b\u2028\u2029\u3000\ufeff\ufffd\ue000\U0001f600\U000e0001"
)


def about(text: str) -> list[object]:
    path = "spec.list"
    return [
        invalid(f"{path}[{text}]", text, "bad"),
        not_found(path, JsonText(text)),
        not_supported(path, JsonText(text), [text, "b"]),
        duplicate(path, text),
        required(path, text),
        forbidden(f"{path}[0]", text),
        invalid(path, len(text.encode()), ""),
    ]


def test_problems_are_worded_alike(oracle, for_all):
    def check(example: tuple[str, list[str], list[str]]) -> None:
        name, words, numbers = example
        answer = oracle.ask("problems", name=name, texts=words, amounts=numbers)
        problems: list[Any] = [problem for word in words for problem in about(word)]
        problems.append(invalid("spec.list", tuple(words), "bad"))
        problems += [invalid("spec.list", Quantity.parse(number), "bad") for number in numbers]
        ours = {
            "texts": [str(problem) for problem in problems],
            "whole": render_invalid("Pod", name, problems),
        }
        oracle.assert_same(ours, answer, about=example)

    words = st.text(CHARACTERS, max_size=8)
    example = st.tuples(words, st.lists(words, max_size=6), st.lists(HOSTILE_AMOUNT, max_size=4))
    for_all(example, check, examples=150)


# ------------------------------------------------------------------ creation

PAGE_NAME = st.sampled_from(
    ["hugepages-2Mi", "hugepages-1Gi", "hugepages-3", "hugepages-0", "hugepages--2Mi"]
    + ["hugepages-0.5", "hugepages-1500m", "hugepages-2Mi3", "hugepages-7Ei", "hugepages-9E"]
    + ["hugepages-1000E", "hugepages-9223372036854775808", "hugepages-1e2", "hugepages-"]
)
ODD_NAME = st.sampled_from(["a<b>", "é", "x\x01y", "a/é<", 'q"', "example.com/\u2028", "a b"])
AMOUNT = HOSTILE_AMOUNT | KNOWN["memory"] | KNOWN["cpu"]
PAGES = st.dictionaries(PAGE_NAME | st.just("cpu"), AMOUNT | KNOWN["hugepages-2Mi"], max_size=3)
ODD = st.dictionaries(ODD_NAME | HOSTILE_NAME, AMOUNT, max_size=2)
EXTENDED = st.dictionaries(st.sampled_from(["example.com/foo", "a.io/b"]), AMOUNT, max_size=2)
LISTS = PAGES | ODD | EXTENDED | HOSTILE_AMOUNTS | amounts()

GATES = st.lists(
    st.sampled_from(["a", "b", "example.com/gate", "a/b/c", "", "x\n", "Über", "-", "é" * 32]),
    max_size=4,
).map(lambda names: [{"name": name} for name in names])
CLAIM_NAME = st.sampled_from(["gpu", "nic", "", "a/b", "Bad", "a.b", "x" * 64])
CLAIMS = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["gpu", "gpu", "nic", "nix", "a/b", ""])},
        optional={"request": st.sampled_from(["b", "one", "two", "", "Bad", "a.b", "x" * 64])},
    ),
    min_size=1,
    max_size=5,
)
EMPTY_DIRS = st.lists(
    st.fixed_dictionaries({}, optional={"sizeLimit": AMOUNT | st.sampled_from(["-0", "-1e-9"])}),
    max_size=3,
).map(lambda dirs: [{"name": f"v{i}", "emptyDir": source} for i, source in enumerate(dirs)])


@st.composite
def odd_pods(draw: st.DrawFn) -> Raw:
    """A hostile pod with claims, gates, volumes, ephemeral containers and the rest."""
    raw = draw(pods(hostile=True, resized=False))
    spec = raw["spec"]
    for container in (*spec["containers"], *spec["initContainers"]):
        if draw(st.booleans()):
            container["resources"] = draw(requirements(LISTS))
        if draw(st.integers(0, 3)) == 0:
            container["resources"]["claims"] = draw(CLAIMS)
    if draw(st.booleans()):
        spec["overhead"] = draw(LISTS)
    if draw(st.integers(0, 3)) == 0:
        spec["resources"] = draw(requirements(LISTS))
        if draw(st.booleans()):
            spec["resources"]["claims"] = draw(CLAIMS)
    spec["resourceClaims"] = [
        {"name": name, "resourceClaimName": "c"} for name in draw(st.lists(CLAIM_NAME, max_size=3))
    ]
    spec["schedulingGates"] = draw(GATES)
    spec["volumes"] = draw(EMPTY_DIRS)
    spec["ephemeralContainers"] = [
        # Upstream refuses even an empty map here, which a core pod cannot tell from none.
        {"name": f"e{i}", "image": "example.com/app", "resources": without_empty(resources)}
        for i, resources in enumerate(draw(st.lists(requirements(LISTS), max_size=1)))
    ]
    if draw(st.integers(0, 5)) == 0:
        spec["os"] = {"name": draw(st.sampled_from(["linux", "windows"]))}
    if draw(st.integers(0, 2)) == 0:
        spec["nodeName"] = "n1"
        if draw(st.booleans()):
            raw["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    return raw


def without_empty(resources: Raw) -> Raw:
    return {side: listed for side, listed in resources.items() if listed}


def compare_creation(oracle: Any, batch: list[Raw]) -> None:
    for raw, answer in zip(batch, oracle.ask("validate_pods", pods=batch), strict=True):
        pod = with_defaults(as_pod(raw))
        ours = texts(validate_pod(pod))
        if "panic" in answer:
            assert "divide by zero" in answer["panic"]
            assert any("is not positive integer multiple of hugepages-" in text for text in ours)
            continue
        theirs = sorted(text for text in answer["errors"] if text != ON_CREATE_ONLY)
        oracle.assert_same(ours, theirs, about=raw)
        oracle.assert_same(list(pod_warnings(pod)), answer["warnings"], about=raw)


def test_hostile_pods_are_refused_in_the_same_words(oracle, for_all):
    batches = st.lists(odd_pods(), min_size=1, max_size=6)
    for_all(batches, lambda batch: compare_creation(oracle, batch), examples=70)


BEYOND_64_BITS = ["-1", "1500m", "12E", "9223372036854775807", "99999999999999999999", "7Ei"]
BEYOND_64_BITS += ["9300000000000000", "1000E", "1e400", "0.05Gi", "0", "99999999999999999999.5"]


@pytest.mark.parametrize(
    "name",
    ["hugepages-2Mi", "hugepages-3", "hugepages-7Ei", "hugepages-9223372036854775808"]
    + ["hugepages-1000E", "example.com/foo", "memory"],
)
def test_amounts_beyond_64_bits_overflow_alike(oracle, name):
    batch = [
        bare_pod(
            {"requests": {name: request, "cpu": "1"}, "limits": {name: limit}},
            resources={"requests": {name: limit}, "limits": {name: request}},
        )
        for request in BEYOND_64_BITS
        for limit in BEYOND_64_BITS
    ]

    compare_creation(oracle, batch)


def test_ordinary_pods_are_judged_alike(oracle, for_all):
    batches = st.lists(pods(), min_size=2, max_size=8)
    for_all(batches, lambda batch: compare_creation(oracle, batch), examples=30)


REPORTED = st.dictionaries(
    st.sampled_from([*KNOWN, "pods", ""]) | HOSTILE_NAME | ODD_NAME, AMOUNT, max_size=4
)
NODES = st.fixed_dictionaries({}, optional={"capacity": REPORTED, "allocatable": REPORTED}).map(
    lambda status: {"metadata": {"name": "n1"}, "status": status}
)


def errors_of(answer: Raw) -> list[str]:
    return sorted(answer["errors"])


def test_nodes_are_judged_alike(agree):
    def ours(raw: Raw) -> list[str]:
        return texts(validate_node(as_node(raw)))

    agree("validate_nodes", nodes=NODES, ours=ours, theirs=errors_of, batch=(5, 20))


# ------------------------------------------------------------------ change

CPU_AND_MEMORY = amounts("cpu", "memory")
QOS = st.sampled_from(["Guaranteed", "Burstable", "BestEffort"])


@st.composite
def resizes(draw: st.DrawFn) -> Raw:
    """A stored pod, and the same with other resources, or with a change no resize can make."""
    old = draw(pods(hostile=draw(st.booleans())))
    old["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "c"}]
    if draw(st.integers(0, 7)) == 0:
        draw_into(draw, old, claims=True)
    status = old.setdefault("status", {})
    if draw(st.booleans()):
        status["qosClass"] = draw(QOS)
    for container in status.get("containerStatuses", []):
        container["state"] = {draw(st.sampled_from(["running", "waiting", "terminated"])): {}}
    old["metadata"]["annotations"] = draw(
        st.sampled_from([{}] * 9 + [{"kubernetes.io/config.mirror": "x"}])
    )
    if draw(st.integers(0, 9)) == 0:
        old["spec"]["os"] = {"name": draw(st.sampled_from(["linux", "windows"]))}
    if "kubernetes.io/config.mirror" in old["metadata"]["annotations"]:
        old["spec"]["nodeName"] = "n1"
    new = deepcopy(old)
    draw_into(draw, new, claims=draw(st.integers(0, 7)) == 0)
    if draw(st.integers(0, 5)) == 0:
        rearrange(draw, new)
    return {"old": old, "new": new}


SIZED = st.fixed_dictionaries({"cpu": KNOWN["cpu"], "memory": KNOWN["memory"]}).map(
    lambda sized: {"requests": sized, "limits": dict(sized)}
)


@st.composite
def plain_resizes(draw: st.DrawFn) -> Raw:
    """A pod with nothing but cpu and memory, and the same with other amounts of them."""
    old = draw(pods(resized=False))
    old["spec"].pop("resources", None)
    new = deepcopy(old)
    for raw in (old, new):
        for container in (*raw["spec"]["containers"], *raw["spec"]["initContainers"]):
            container["resources"] = draw(SIZED)
    if draw(st.integers(0, 3)) == 0:
        new["spec"]["resources"] = draw(st.sampled_from([{}, {"requests": {"cpu": "1k"}}]))
    return {"old": old, "new": new}


def draw_into(draw: st.DrawFn, raw: Raw, *, claims: bool) -> None:
    """Give some containers other cpu and memory, and a few anything at all."""
    spec = raw["spec"]
    for container in (*spec["containers"], *spec["initContainers"]):
        choice = draw(st.integers(0, 9))
        if choice < 5:
            for side, sized in draw(requirements(CPU_AND_MEMORY)).items():
                container["resources"].setdefault(side, {}).update(sized)
        elif choice == 5:
            container["resources"] = draw(requirements(LISTS))
        if claims and draw(st.booleans()):
            container["resources"]["claims"] = draw(
                st.sampled_from([[], [{"name": "gpu"}], [{"name": "gpu", "request": "a"}]])
            )
    choice = draw(st.integers(0, 9))
    if choice < 3:
        spec["resources"] = draw(requirements(CPU_AND_MEMORY | st.just({})))
    elif choice == 3:
        spec["resources"] = draw(requirements(LISTS))
    elif choice == 4:
        spec.pop("resources", None)


def rearrange(draw: st.DrawFn, raw: Raw) -> None:
    field = draw(st.sampled_from(["containers", "initContainers"]))
    containers = raw["spec"][field]
    choice = draw(st.integers(0, 2))
    if choice == 0:
        containers.append({"name": "added", "image": "example.com/app", "resources": {}})
    elif choice == 1:
        containers.reverse()
    elif len(containers) > 1:
        containers.pop()
    if draw(st.booleans()):
        raw["status"]["qosClass"] = draw(QOS)


def test_resizes_are_judged_alike(oracle, for_all):
    def check(batch: list[Raw]) -> None:
        answers = oracle.ask("validate_resizes", pairs=batch)
        for pair, answer in zip(batch, answers, strict=True):
            old, new = (with_defaults(as_pod(pair[side])) for side in ("old", "new"))
            ours = texts(validate_resize(old, new))
            if "panic" in answer:
                assert "divide by zero" in answer["panic"]
                continue
            oracle.assert_same(ours, sorted(answer["errors"]), about=pair)

    pairs = resizes() | resizes() | plain_resizes()
    for_all(st.lists(pairs, min_size=1, max_size=6), check, examples=60)


def test_changes_of_gates_are_judged_alike(agree):
    def ours(pair: Raw) -> list[str]:
        old, new = as_pod(pair["old"]), as_pod(pair["new"])
        return texts((*validate_pod_spec(new), *validate_gate_update(old, new)))

    gated = GATES.map(lambda gates: bare_pod({}, schedulingGates=gates))
    pairs = st.fixed_dictionaries({"old": gated, "new": gated})
    agree("validate_updates", pairs=pairs, ours=ours, theirs=errors_of, batch=(5, 20), examples=30)
