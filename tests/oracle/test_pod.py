"""Pods: demand under every set of options, QoS, and what the API server stores."""

from typing import Any

from hypothesis import strategies as st

from bursar.core.model.defaulting import with_defaults, with_template_defaults
from bursar.core.model.demand import (
    ASSIGNED,
    INCOMING,
    QUOTA,
    DemandOptions,
    container_limits_seen,
    pod_limits,
    pod_requests,
)
from bursar.core.model.pod import Container, ContainerStatus, Pod, ResourceRequirements
from bursar.core.model.qos import explain_qos, qos_class
from bursar.core.model.quantity import Quantity
from bursar.core.model.resources import ResourceList
from support.builders.random_objects import HOSTILE_AMOUNTS, amounts, as_pod, pods, requirements

NON_MISSING = {"cpu": Quantity.parse("100m"), "memory": Quantity.parse("200Mi")}
OPTIONS = [
    INCOMING,
    ASSIGNED,
    QUOTA,
    DemandOptions(exclude_overhead=True),
    DemandOptions(skip_pod_level=True),
    DemandOptions(use_pod_level_status=True),
    DemandOptions(non_missing=NON_MISSING),
    DemandOptions(non_missing=NON_MISSING, use_status=True, exclude_overhead=True),
]


def raw_options(options: DemandOptions) -> dict[str, Any]:
    return {
        "useStatus": options.use_status,
        "usePodLevelStatus": options.use_pod_level_status,
        "excludeOverhead": options.exclude_overhead,
        "nonMissing": {name: str(amount) for name, amount in options.non_missing.items()},
        "skipPodLevel": options.skip_pod_level,
        "skipContainers": False,
    }


def view(amounts: ResourceList) -> dict[str, Any]:
    return {
        name: {
            "text": str(amount),
            "format": amount.format.value,
            "value": amount.value(),
            "milliValue": amount.milli_value(),
            "int64": amount.as_int64(),
        }
        for name, amount in amounts.items()
    }


def requirements_view(resources: ResourceRequirements | None) -> dict[str, Any] | None:
    if resources is None:
        return None
    return {"requests": view(resources.requests), "limits": view(resources.limits)}


def containers(listed: tuple[Container, ...]) -> list[Any]:
    return [requirements_view(container.resources) for container in listed]


def statuses(listed: tuple[ContainerStatus, ...]) -> list[Any]:
    return [
        {"resources": requirements_view(status.resources), "allocated": view(status.allocated)}
        for status in listed
    ]


def spec_view(pod: Pod) -> dict[str, Any]:
    return {
        "containers": containers(pod.containers),
        "initContainers": containers(pod.init_containers),
        "ephemeralContainers": containers(pod.ephemeral_containers),
        "resources": requirements_view(pod.resources),
        "overhead": view(pod.overhead),
    }


def status_view(pod: Pod) -> dict[str, Any]:
    return {
        "containerStatuses": statuses(pod.container_statuses),
        "initContainerStatuses": statuses(pod.init_container_statuses),
        "statusResources": requirements_view(pod.status_resources),
        "statusAllocated": view(pod.status_allocated),
    }


def demand_view(pod: Pod, options: DemandOptions) -> dict[str, Any]:
    return {
        "requests": view(pod_requests(pod, options)),
        "limits": view(pod_limits(pod, options)),
        "limitsSeen": [view(amounts) for amounts in container_limits_seen(pod, options)],
    }


def as_ours(answer: Any) -> Any:
    """Drop the views we do not compare here, and name the format of Go's untyped zero."""
    if isinstance(answer, list):
        return [as_ours(entry) for entry in answer]
    if not isinstance(answer, dict):
        return answer
    if "milliValue" in answer:
        kept = {key: answer[key] for key in ("text", "format", "value", "milliValue", "int64")}
        if answer["sign"] == 0 and not answer["format"]:
            kept["format"] = "DecimalSI"
        return kept
    return {key: as_ours(entry) for key, entry in answer.items()}


def compare(oracle: Any, raw: dict[str, Any], answer: dict[str, Any]) -> None:
    answer = as_ours(answer)
    written = as_pod(raw)
    stored = with_defaults(written)
    oracle.assert_same(spec_view(written), spec_part(answer["raw"]["spec"]), about=raw)
    oracle.assert_same(
        {**spec_view(stored), **status_view(stored)}, answer["stored"]["spec"], about=raw
    )
    oracle.assert_same(
        spec_view(with_template_defaults(written)), spec_part(answer["template"]), about=raw
    )
    for pod, upstream in ((written, answer["raw"]), (stored, answer["stored"])):
        oracle.assert_same(qos_class(pod).value, upstream["qos"], about=raw)
        oracle.assert_same(explain_qos(pod).qos.value, upstream["qos"], about=raw)
        for options, demand in zip(OPTIONS, upstream["demand"], strict=True):
            oracle.assert_same(demand_view(pod, options), demand, about=(options, raw))


def spec_part(answer: dict[str, Any]) -> dict[str, Any]:
    return {key: answer[key] for key in spec_view(Pod(namespace="", name=""))}


CONDITIONS = st.fixed_dictionaries(
    {"type": st.sampled_from(["PodResizePending", "PodResizeInProgress", "Ready"])},
    optional={"reason": st.sampled_from(["Infeasible", "Deferred", ""])},
)


@st.composite
def odd_pods(draw: st.DrawFn) -> dict[str, Any]:
    """Pods the API would refuse or the kubelet never report, but which upstream still counts."""
    raw = draw(pods(hostile=True))
    spec, status = raw["spec"], raw.setdefault("status", {})
    lists = HOSTILE_AMOUNTS | amounts()
    name = st.sampled_from(["c0", "c1", "i0", "i1", "nobody"])
    for container in spec["containers"] + spec["initContainers"]:
        container["name"] = draw(st.just(container["name"]) | name)
        container["restartPolicy"] = draw(st.sampled_from(["Always", "Never", ""]))
    spec["overhead"] = draw(lists)
    spec["ephemeralContainers"] = draw(
        st.lists(
            st.fixed_dictionaries({"name": name, "resources": requirements(lists)}), max_size=1
        )
    )
    for key in ("containerStatuses", "initContainerStatuses"):
        status[key] = draw(st.lists(container_statuses(name, lists), max_size=3))
    status["conditions"] = draw(st.lists(CONDITIONS, max_size=3))
    status["resources"] = draw(st.none() | requirements(lists))
    status["allocatedResources"] = draw(lists)
    return raw


def container_statuses(name: Any, lists: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {"name": name},
        optional={"resources": st.none() | requirements(lists), "allocatedResources": lists},
    )


def as_served(raw: dict[str, Any]) -> dict[str, Any]:
    """Leave out an empty list of pod-level limits, as storage does.

    Upstream tells it from an absent one, but no API server ever sends it.
    """
    resources = raw.get("status", {}).get("resources")
    if resources and not resources.get("limits"):
        raw["status"]["resources"] = {**resources, "limits": None}
    return raw


def ask(oracle: Any, batch: list[dict[str, Any]]) -> None:
    answers = oracle.ask("pods", pods=batch, options=[raw_options(o) for o in OPTIONS])
    for raw, answer in zip(batch, answers, strict=True):
        compare(oracle, raw, answer)


def test_demand_qos_and_defaulting_agree(oracle, for_all):
    every_kind = (pods() | pods(hostile=True) | odd_pods()).map(as_served)
    for_all(
        st.lists(every_kind, min_size=4, max_size=12),
        lambda batch: ask(oracle, batch),
        examples=60,
    )


SMALL = {
    "requests": {"cpu": "250m", "memory": "64Mi"},
    "limits": {"cpu": "500m", "memory": "128Mi"},
}
TRAPS = [
    {"containers": [{"name": "db", "resources": SMALL}, {"name": "wp", "resources": SMALL}]},
    {"containers": [{"name": "db", "resources": SMALL}], "resources": {}},
    {"containers": [{"name": "db", "resources": SMALL}], "resources": {"limits": {"cpu": "4"}}},
    {
        "containers": [{"name": n, "resources": {"requests": {"cpu": "0.5m"}}} for n in "ab"],
        "resources": {"limits": {"cpu": "4"}},
    },
    {
        "containers": [{"name": "a", "resources": {"requests": {"memory": "1.5Gi"}}}],
        "initContainers": [{"name": "b", "resources": {"requests": {"memory": "2Gi"}}}],
    },
    {"containers": [{"name": "a", "resources": {"limits": {"cpu": None, "memory": 1000000000}}}]},
]


def test_traps_agree(oracle):
    refused = {"conditions": [{"type": "PodResizePending", "reason": "Infeasible"}]}
    for status in ({}, refused, {**refused, "resources": {}}):
        ask(oracle, [{"metadata": {"name": "web"}, "spec": s, "status": status} for s in TRAPS])
