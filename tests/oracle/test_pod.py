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
from raw_objects import as_pod, pods

NON_MISSING = {"cpu": Quantity.parse("100m"), "memory": Quantity.parse("200Mi")}
OPTIONS = [
    INCOMING,
    ASSIGNED,
    QUOTA,
    DemandOptions(exclude_overhead=True),
    DemandOptions(skip_pod_level=True),
    DemandOptions(skip_containers=True),
    DemandOptions(use_pod_level_status=True),
    DemandOptions(non_missing=NON_MISSING),
    DemandOptions(non_missing=NON_MISSING, use_status=True, exclude_overhead=True),
    DemandOptions(use_status=True, use_pod_level_status=True, skip_containers=True),
]


def raw_options(options: DemandOptions) -> dict[str, Any]:
    return {
        "useStatus": options.use_status,
        "usePodLevelStatus": options.use_pod_level_status,
        "excludeOverhead": options.exclude_overhead,
        "nonMissing": {name: str(amount) for name, amount in options.non_missing.items()},
        "skipPodLevel": options.skip_pod_level,
        "skipContainers": options.skip_containers,
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


def requirements(resources: ResourceRequirements | None) -> dict[str, Any] | None:
    if resources is None:
        return None
    return {"requests": view(resources.requests), "limits": view(resources.limits)}


def containers(listed: tuple[Container, ...]) -> list[Any]:
    return [requirements(container.resources) for container in listed]


def statuses(listed: tuple[ContainerStatus, ...]) -> list[Any]:
    return [
        {"resources": requirements(status.resources), "allocated": view(status.allocated)}
        for status in listed
    ]


def spec_view(pod: Pod) -> dict[str, Any]:
    return {
        "containers": containers(pod.containers),
        "initContainers": containers(pod.init_containers),
        "ephemeralContainers": containers(pod.ephemeral_containers),
        "resources": requirements(pod.resources),
        "overhead": view(pod.overhead),
    }


def status_view(pod: Pod) -> dict[str, Any]:
    return {
        "containerStatuses": statuses(pod.container_statuses),
        "initContainerStatuses": statuses(pod.init_container_statuses),
        "statusResources": requirements(pod.status_resources),
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
    oracle.agree(spec_view(written), spec_part(answer["raw"]["spec"]), about=raw)
    oracle.agree(
        {**spec_view(stored), **status_view(stored)}, answer["stored"]["spec"], about=raw
    )
    oracle.agree(
        spec_view(with_template_defaults(written)), spec_part(answer["template"]), about=raw
    )
    for pod, upstream in ((written, answer["raw"]), (stored, answer["stored"])):
        oracle.agree(qos_class(pod).value, upstream["qos"], about=raw)
        oracle.agree(explain_qos(pod).qos.value, upstream["qos"], about=raw)
        for options, demand in zip(OPTIONS, upstream["demand"], strict=True):
            oracle.agree(demand_view(pod, options), demand, about=(options, raw))


def spec_part(answer: dict[str, Any]) -> dict[str, Any]:
    return {key: answer[key] for key in spec_view(Pod(namespace="", name=""))}


def test_demand_qos_and_defaulting_agree(oracle, for_all):
    def check(batch: list[dict[str, Any]]) -> None:
        answers = oracle.ask("pods", pods=batch, options=[raw_options(o) for o in OPTIONS])
        for raw, answer in zip(batch, answers, strict=True):
            compare(oracle, raw, answer)

    for_all(st.lists(pods() | pods(hostile=True), min_size=4, max_size=12), check, examples=40)
