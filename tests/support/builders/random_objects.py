"""Random pods and nodes for hypothesis, and the decoding of raw ones as our adapters do it."""

from typing import Any

import msgspec
from hypothesis import strategies as st

from bursar.core.model.node import Node
from bursar.core.model.pod import Pod
from bursar.wire.model import node as wire_node
from bursar.wire.model import pod as wire_pod


def as_pod(raw: dict[str, Any]) -> Pod:
    return wire_pod.to_core(msgspec.convert(raw, wire_pod.Pod))


def as_node(raw: dict[str, Any]) -> Node:
    return wire_node.to_core(msgspec.convert(raw, wire_node.Node))


CPU = st.sampled_from(
    ["0", "1", "2", "100m", "250m", "500m", "1500m", "0.1", "1.500", "3", "64", "0.5m", "1m", "10m"]
    + ["100n", "300", "1k", "5000m"]
)
MEMORY = st.sampled_from(
    ["0", "64Mi", "128Mi", "1Gi", "1.5Gi", "200M", "1e9", "123Mi", "100", "1000Ki", "2Ti", "7Ei"]
    + ["512", "0.5Gi", "128974848"]
)
EPHEMERAL = st.sampled_from(["0", "2Gi", "4Gi", "1G", "100Mi", "10"])
WHOLE = st.sampled_from(["0", "1", "2", "3", "3000m", "3Ki", "10"])
HUGEPAGES = st.sampled_from(["0", "2Mi", "4Mi", "100Mi", "1Gi"])
HOSTILE_AMOUNT = st.sampled_from(
    ["-1", "-100m", "0.5", "1500m", "12E", "9223372036854775807", "99999999999999999999", "1E"]
    + ["9300000000000000", "0.1m", "1e-9", "7Ei", "9Ei", "1000E", "1e400", "0.05Gi", "1", "3Mi"]
)
HOSTILE_NAME = st.sampled_from(
    [
        "pods",
        "storage",
        "gpu",
        "kubernetes.io/foo",
        "requests.foo.com/x",
        "a/b/c",
        "/x",
        "x/",
        "Bad_/x",
    ]
    + ["hugepages-", "hugepages-3", "hugepages-xyz", "hugepages-0", "notkubernetes.io/x", "-a", ""]
    + ["attachable-volumes-csi", "example.com/" + "a" * 64, "a" * 250 + ".com/x", "cpu.", "Cpu"]
)
KNOWN = {
    "cpu": CPU,
    "memory": MEMORY,
    "ephemeral-storage": EPHEMERAL,
    "hugepages-2Mi": HUGEPAGES,
    "hugepages-1Gi": HUGEPAGES,
    "example.com/foo": WHOLE,
    "nvidia.com/gpu": WHOLE,
}


def amounts(*names: str) -> st.SearchStrategy[dict[str, str]]:
    """A resource list with any subset of the given names (all known ones by default)."""
    chosen = {name: KNOWN[name] for name in names or KNOWN}
    return st.fixed_dictionaries({}, optional=chosen)


HOSTILE_AMOUNTS = st.dictionaries(
    st.sampled_from(list(KNOWN)) | HOSTILE_NAME, HOSTILE_AMOUNT | CPU | MEMORY, max_size=4
)


def requirements(
    lists: st.SearchStrategy[dict[str, str]],
) -> st.SearchStrategy[dict[str, Any]]:
    """`resources` of a container: independent lists, or requests equal to limits."""
    apart = st.fixed_dictionaries({}, optional={"requests": lists, "limits": lists})
    return apart | lists.map(lambda same: {"requests": same, "limits": dict(same)})


@st.composite
def pods(draw: st.DrawFn, *, hostile: bool = False, resized: bool = True) -> dict[str, Any]:
    """A v1 Pod: containers, init containers, sidecars, overhead, pod-level, resize status.

    Well-formed unless `hostile`, which mixes in names and amounts the API refuses.
    """
    lists = amounts() | HOSTILE_AMOUNTS if hostile else amounts()
    pod_lists = (
        amounts("cpu", "memory", "hugepages-2Mi", "hugepages-1Gi") | lists
        if hostile
        else amounts("cpu", "memory", "hugepages-2Mi", "hugepages-1Gi")
    )
    main = [_container(f"c{i}", draw(requirements(lists))) for i in range(draw(st.integers(1, 3)))]
    init = [
        _container(f"i{i}", draw(requirements(lists)), sidecar=draw(st.booleans()))
        for i in range(draw(st.integers(0, 3)))
    ]
    spec: dict[str, Any] = {"containers": main, "initContainers": init}
    if draw(st.booleans()):
        spec["overhead"] = draw(amounts("cpu", "memory"))
    if draw(st.booleans()):
        spec["resources"] = draw(requirements(pod_lists))
    raw: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default", "uid": "u-1"},
        "spec": spec,
    }
    if resized and draw(st.booleans()):
        raw["status"] = draw(_resize_status([c["name"] for c in main], [c["name"] for c in init]))
    return raw


def _container(name: str, resources: dict[str, Any], *, sidecar: bool = False) -> dict[str, Any]:
    raw: dict[str, Any] = {"name": name, "image": "example.com/app", "resources": resources}
    if sidecar:
        raw["restartPolicy"] = "Always"
    return raw


@st.composite
def _resize_status(draw: st.DrawFn, main: list[str], init: list[str]) -> dict[str, Any]:
    sized = amounts("cpu", "memory", "ephemeral-storage")
    status: dict[str, Any] = {}
    for key, names in (("containerStatuses", main), ("initContainerStatuses", init)):
        status[key] = [
            {
                "name": name,
                **draw(
                    st.fixed_dictionaries(
                        {},
                        optional={"resources": requirements(sized), "allocatedResources": sized},
                    )
                ),
            }
            for name in names
            if draw(st.booleans())
        ]
    if draw(st.booleans()):
        status["conditions"] = [
            {
                "type": "PodResizePending",
                "status": draw(st.sampled_from(["True", "False"])),
                "reason": draw(st.sampled_from(["Infeasible", "Deferred"])),
            }
        ]
    pod_level = amounts("cpu", "memory")
    status.update(
        draw(
            st.fixed_dictionaries(
                {},
                optional={"resources": requirements(pod_level), "allocatedResources": pod_level},
            )
        )
    )
    return status
