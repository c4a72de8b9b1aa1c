"""Pods of the embedded cluster: defaults, admission and validation by the core.

Pods are stored as JSON. Only the fields that the core reads are checked. Defaults are set for
resources, priority, overhead and a few fields that every pod has.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

from bursar.adapters.memory import errors
from bursar.adapters.memory.objects.patches import JsonObject
from bursar.app.cluster.kinds import NODES, PODS, PRIORITY_CLASSES, RUNTIME_CLASSES
from bursar.app.cluster.ports import Key, Resource
from bursar.core.model.defaulting import with_defaults
from bursar.core.model.demand import INCOMING, pod_requests
from bursar.core.model.names import CPU, MEMORY
from bursar.core.model.pod import Container, Pod, ResourceRequirements
from bursar.core.model.problem import Problem, forbidden, invalid, required
from bursar.core.model.qos import qos_class
from bursar.core.model.quantity import ZERO
from bursar.core.model.resources import ResourceList
from bursar.core.model.validation.pod import validate_gate_update, validate_pod
from bursar.core.model.validation.resize import validate_resize
from bursar.core.placement.message import GATED_MESSAGE, GATED_REASON
from bursar.wire.model import node as wire_node
from bursar.wire.model import pod as wire_pod
from bursar.wire.structs.fields import FieldError, timestamp
from bursar.wire.structs.shape import shaped

_GRACE_SECONDS: Final = 30
_SPEC_DEFAULTS: Final = (
    ("restartPolicy", "Always"),
    ("terminationGracePeriodSeconds", _GRACE_SECONDS),
    ("dnsPolicy", "ClusterFirst"),
    ("schedulerName", "default-scheduler"),
)
_CONTAINER_LISTS: Final = ("containers", "initContainers")
_IMMUTABLE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions"
    " to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it"
    " was previously negative)"
)
_REJECTED: Final = "pod rejected: "


class Lookup(Protocol):
    """Cluster-scoped objects that admission of pods depends on."""

    def find(self, resource: Resource, name: str) -> JsonObject | None:
        """A cluster-scoped object; None if it does not exist."""

    def all(self, resource: Resource) -> Iterable[JsonObject]:
        """All objects of a cluster-scoped kind."""


@dataclass(frozen=True, slots=True)
class PodDocument:
    """A pod as stored JSON and as the core's value."""

    body: JsonObject
    pod: Pod


def read_pod(body: JsonObject, key: Key) -> PodDocument:
    """The pod with defaults, in both forms. Raises `InvalidError` (400)."""
    spec = body.get("spec") or {}
    if not isinstance(spec, dict):
        raise errors.undecodable(PODS, key, "spec: an object is expected")
    body = {**body, "spec": {**dict(_SPEC_DEFAULTS), **spec}}
    if not body["spec"].get("schedulingGates"):
        body["spec"].pop("schedulingGates", None)
    try:
        pod = with_defaults(wire_pod.to_core(shaped(body, wire_pod.Pod)))
    except FieldError as error:
        raise errors.undecodable(PODS, key, error.problem) from None
    return PodDocument(with_resources(body, pod), pod)


def with_resources(body: JsonObject, pod: Pod) -> JsonObject:
    """The JSON with the core's amounts, spelt as the API server stores them."""
    spec = dict(body["spec"])
    for name, containers in (
        ("containers", pod.containers),
        ("initContainers", pod.init_containers),
    ):
        if containers:
            spec[name] = [
                {**raw, "resources": _requirements(raw.get("resources") or {}, container.resources)}
                for raw, container in zip(spec[name], containers, strict=True)
            ]
    if pod.resources is not None:
        spec["resources"] = _requirements(spec["resources"], pod.resources)
    if pod.overhead:
        spec["overhead"] = _amounts(pod.overhead)
    return {**body, "spec": spec}


def _requirements(raw: JsonObject, resources: ResourceRequirements) -> JsonObject:
    sides = {"requests": resources.requests, "limits": resources.limits}
    kept = {name: value for name, value in raw.items() if name not in sides}
    return {**kept, **{side: _amounts(amounts) for side, amounts in sides.items() if amounts}}


def _amounts(amounts: ResourceList) -> dict[str, str]:
    return {name: str(amount) for name, amount in sorted(amounts.items())}


# ------------------------------------------------------------------ creation


def admitted(body: JsonObject, key: Key, lookup: Lookup) -> JsonObject:
    """The pod with its priority and its runtime's overhead. Raises `ForbiddenError`."""
    spec = dict(body.get("spec") or {})
    _set_priority(spec, key, lookup)
    _set_runtime(spec, key, lookup)
    return {**body, "spec": spec}


def without_admitted(body: JsonObject) -> JsonObject:
    """A pod from another cluster, without the fields that admission sets again."""
    spec = dict(body.get("spec") or {})
    for name in ("priority", "preemptionPolicy", "overhead"):
        spec.pop(name, None)
    return {**body, "spec": spec}


def _set_priority(spec: JsonObject, key: Key, lookup: Lookup) -> None:
    name = spec.get("priorityClassName", "")
    chosen = lookup.find(PRIORITY_CLASSES, name) if name else None
    if name and chosen is None:
        raise errors.forbidden(PODS, key, f"no PriorityClass with name {name} was found")
    if chosen is None:
        defaults = [each for each in lookup.all(PRIORITY_CLASSES) if each.get("globalDefault")]
        chosen = min(defaults, key=lambda each: int(each["value"]), default=None)
        if chosen is not None:
            spec["priorityClassName"] = chosen["metadata"]["name"]
    value = 0 if chosen is None else chosen["value"]
    if spec.get("priority") not in {None, value}:
        detail = (
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {value} from the given PriorityClass name"
        )
        raise errors.forbidden(PODS, key, detail)
    spec["priority"] = value
    policy = None if chosen is None else chosen.get("preemptionPolicy")
    spec.setdefault("preemptionPolicy", policy or "PreemptLowerPriority")


def _set_runtime(spec: JsonObject, key: Key, lookup: Lookup) -> None:
    name = spec.get("runtimeClassName", "")
    runtime = lookup.find(RUNTIME_CLASSES, name) if name else None
    if name and runtime is None:
        raise errors.forbidden(PODS, key, f'{_REJECTED}RuntimeClass "{name}" not found')
    overhead = ((runtime or {}).get("overhead") or {}).get("podFixed")
    stated = spec.get("overhead")
    if stated and not overhead:
        detail = "Pod Overhead set without corresponding RuntimeClass defined Overhead"
        raise errors.forbidden(PODS, key, _REJECTED + detail)
    if stated and stated != overhead:
        detail = "Pod's Overhead doesn't match RuntimeClass's defined Overhead"
        raise errors.forbidden(PODS, key, _REJECTED + detail)
    if overhead:
        spec["overhead"] = overhead
    scheduling = (runtime or {}).get("scheduling") or {}
    if scheduling.get("nodeSelector"):
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **scheduling["nodeSelector"]}
    known = spec.get("tolerations") or []
    added = [each for each in scheduling.get("tolerations") or [] if each not in known]
    if added:
        spec["tolerations"] = [*known, *added]


def with_first_status(document: PodDocument, now: datetime) -> JsonObject:
    """The pod with the status that the API server sets at creation."""
    status: JsonObject = {"phase": "Pending", "qosClass": qos_class(document.pod).value}
    if document.pod.scheduling_gates:
        status["conditions"] = [
            _scheduled("False", now, reason=GATED_REASON, message=GATED_MESSAGE)
        ]
    return {**document.body, "status": status}


def _scheduled(status: str, now: datetime, **details: str) -> JsonObject:
    return {
        "type": "PodScheduled",
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": timestamp(now),
        **details,
    }


def creation_problems(document: PodDocument) -> list[Problem]:
    """Validation errors of a new pod: the core's rules, and name and image of containers."""
    return [*_container_problems(document.pod), *validate_pod(document.pod)]


def _container_problems(pod: Pod) -> Iterator[Problem]:
    if not pod.containers:
        yield required("spec.containers")
    for field, containers in (
        ("containers", pod.containers),
        ("initContainers", pod.init_containers),
    ):
        yield from _unnamed(field, containers)


def _unnamed(field: str, containers: Iterable[Container]) -> Iterator[Problem]:
    for index, container in enumerate(containers):
        if not container.name:
            yield required(f"spec.{field}[{index}].name")
        if not container.image:
            yield required(f"spec.{field}[{index}].image")


# ------------------------------------------------------------------ changes


def update_problems(old: PodDocument, new: PodDocument) -> list[Problem]:
    """Validation errors of an update. Most fields of the spec are immutable."""
    problems = [*_container_problems(new.pod)]
    was, now = old.body["spec"], new.body["spec"]
    for name in _CONTAINER_LISTS:
        if len(was.get(name) or ()) != len(now.get(name) or ()):
            detail = "pod updates may not add or remove containers"
            return [*problems, forbidden(f"spec.{name}", detail)]
    problems += _deadline_problems(
        was.get("activeDeadlineSeconds"), now.get("activeDeadlineSeconds")
    )
    problems += _toleration_problems(was, now)
    problems += validate_gate_update(old.pod, new.pod)
    changed = _changed_fields(was, now)
    if old.pod.scheduling_gates and "nodeSelector" in changed:
        changed.remove("nodeSelector")
        problems += _node_selector_problems(was.get("nodeSelector"), now.get("nodeSelector"))
    if changed:
        places = "".join(f"\n spec.{name}" for name in changed)
        problems.append(forbidden("spec", f"{_IMMUTABLE}{places}"))
    return problems


def _deadline_problems(was: int | None, now: int | None) -> Iterator[Problem]:
    field = "spec.activeDeadlineSeconds"
    if was is not None and now is None:
        yield invalid(field, (), "must not update from a positive integer to nil value")
    elif was is not None and now is not None and was < now:
        yield invalid(field, now, "must be less than or equal to previous value")


def _toleration_problems(was: JsonObject, now: JsonObject) -> Iterator[Problem]:
    kept = [_toleration(each) for each in now.get("tolerations") or ()]
    if any(_toleration(each) not in kept for each in was.get("tolerations") or ()):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        yield forbidden("spec.tolerations", detail)


def _toleration(raw: JsonObject) -> JsonObject:
    return {name: value for name, value in raw.items() if name != "tolerationSeconds"}


def _node_selector_problems(
    was: Mapping[str, str] | None, now: Mapping[str, str] | None
) -> Iterator[Problem]:
    if not (was or {}).items() <= (now or {}).items():
        detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        yield forbidden("spec.nodeSelector", detail)


def _changed_fields(was: JsonObject, now: JsonObject) -> list[str]:
    """The immutable fields of the spec that differ."""
    may_change = {"activeDeadlineSeconds", "tolerations", "schedulingGates"}
    return [
        name
        for name in sorted(was.keys() | now.keys())
        if name not in may_change and _without_images(name, was) != _without_images(name, now)
    ]


def _without_images(name: str, spec: JsonObject) -> Any:  # noqa: ANN401 - any JSON value
    value = spec.get(name)
    if name not in _CONTAINER_LISTS or not value:
        return value or None
    return [{**container, "image": ""} for container in value]


def status_problems(old: JsonObject, new: JsonObject) -> list[Problem]:
    was, now = old.get("status", {}).get("qosClass"), new.get("status", {}).get("qosClass")
    return [] if was == now else [invalid("status.qosClass", now or "", "field is immutable")]


def resized(old: PodDocument, new: PodDocument) -> tuple[JsonObject, tuple[Problem, ...]]:
    """The old pod with the new resources, and the validation errors of the resize."""
    spec = dict(old.body["spec"])
    for name in _CONTAINER_LISTS:
        pairs = zip(spec.get(name) or (), new.body["spec"].get(name) or (), strict=False)
        if name in spec:
            spec[name] = [{**was, "resources": now["resources"]} for was, now in pairs]
    if "resources" in new.body["spec"]:
        spec["resources"] = new.body["spec"]["resources"]
    problems = validate_resize(old.pod, new.pod)
    policies = [each for each in _policy_problems(old, new) if each not in problems]
    return {**old.body, "spec": spec}, (*problems, *policies)


def _policy_problems(old: PodDocument, new: PodDocument) -> Iterator[Problem]:
    """Validation errors for a changed `resizePolicy`, which the core's pod does not have."""
    for name in _CONTAINER_LISTS:
        pairs = zip(
            old.body["spec"].get(name) or (), new.body["spec"].get(name) or (), strict=False
        )
        for index, (was, now) in enumerate(pairs):
            if (was.get("resizePolicy") or []) == (now.get("resizePolicy") or []):
                continue
            if name == "containers":
                yield forbidden("spec", "only cpu and memory resources are mutable")
            else:
                detail = "only cpu and memory resources for init or sidecar containers are mutable"
                yield forbidden(f"spec.{name}[{index}]", detail)


def require_node_for_resize(old: JsonObject, new: JsonObject, key: Key, lookup: Lookup) -> None:
    """Refuse a resize that the pod's node can never grant. Raises `ForbiddenError`.

    The API server does the same in admission: the node must exist, run Linux, declare the
    feature that the resize needs, and have room for the pod if it ran no other. A pod without a
    node can be resized to any size.
    """
    name = new["spec"].get("nodeName")
    before, after = read_pod(old, key), read_pod(new, key)
    if not name or not _is_size_changed(before.pod, after.pod):
        return
    node = lookup.find(NODES, name)
    if node is None:
        raise errors.forbidden(PODS, key, f'node "{name}" not found')
    detail = (
        _undeclared_features(before, after, node)
        or _foreign_system(node)
        or _missing_room(after.pod, node)
    )
    if detail:
        raise errors.forbidden(PODS, key, detail)


def _is_size_changed(old: Pod, new: Pod) -> bool:
    parts = [(pod.resources, pod.containers, pod.init_containers) for pod in (old, new)]
    return parts[0] != parts[1]


def _undeclared_features(old: PodDocument, new: PodDocument, node: JsonObject) -> str:
    declared = (node.get("status") or {}).get("declaredFeatures") or ()
    wanted = []
    if old.pod.resources != new.pod.resources:
        wanted.append("InPlacePodLevelResourcesVerticalScaling")
    starting = zip(old.pod.init_containers, new.pod.init_containers, strict=True)
    if any(was != now and not was.is_sidecar for was, now in starting):
        wanted.append("InPlacePodVerticalScalingInitContainers")
    missing = [each for each in wanted if each not in declared]
    if not missing:
        return ""
    return (
        f"pod update requires features {', '.join(missing)} which are not available on node "
        f'"{node["metadata"]["name"]}"'
    )


def _foreign_system(node: JsonObject) -> str:
    metadata = node["metadata"]
    system = (metadata.get("labels") or {}).get("kubernetes.io/os", "linux")
    if system == "linux":
        return ""
    return f'pod resize is only supported on linux nodes, node "{metadata["name"]}" is "{system}"'


def _missing_room(pod: Pod, node: JsonObject) -> str:
    try:
        allocatable = wire_node.to_core(shaped(node, wire_node.Node)).allocatable
    except FieldError:
        return ""  # an unreadable node refuses nothing
    requests = pod_requests(pod, INCOMING)
    lacks = []
    for name in (CPU, MEMORY):
        wanted, there = requests.get(name, ZERO), allocatable.get(name, ZERO)
        if wanted > there:
            numbers = [
                amount.milli_value() if name == CPU else amount.value()
                for amount in (wanted, there)
            ]
            lacks.append(f"{name}, requested: {numbers[0]}, allocatable: {numbers[1]}")
    prefix = "node didn't have enough allocatable resources: "
    return prefix + "; ".join(lacks) if lacks else ""


# ------------------------------------------------------------------ to a node, and the end


def bound(body: JsonObject, key: Key, node: str, now: datetime) -> JsonObject:
    """The pod bound to a node. Raises `ConflictError`."""
    spec, metadata = body["spec"], body["metadata"]
    detail = ""
    if "deletionTimestamp" in metadata:
        detail = f"pod {key.name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        detail = f'pod {key.name} is already assigned to node "{spec["nodeName"]}"'
    elif spec.get("schedulingGates"):
        detail = f"pod {key.name} has non-empty .spec.schedulingGates"
    if detail:
        raise errors.conflict("pods/binding", PODS, key, detail)
    status = dict(body.get("status") or {})
    others = [each for each in status.get("conditions") or () if each["type"] != "PodScheduled"]
    status["conditions"] = [*others, _scheduled("True", now)]
    return {**body, "spec": {**spec, "nodeName": node}, "status": status}


def grace_seconds(body: JsonObject, requested: int | None) -> int:
    """The grace period of a deletion: 0 for a pod that no node runs."""
    spec, status = body["spec"], body.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in {"Succeeded", "Failed"}:
        return 0
    seconds = spec.get("terminationGracePeriodSeconds") if requested is None else requested
    if seconds is None:
        seconds = _GRACE_SECONDS
    return int(seconds) if seconds >= 0 else 1
