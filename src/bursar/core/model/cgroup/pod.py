"""A pod's cgroups: the values the kubelet and the runtime write for it, and where.

A pod has one cgroup of its own, written by the kubelet, and below it one for every
container, written by the container runtime from what the kubelet tells it. Both are
given here as numbers, and as the files of cgroup v1 and v2 with their content.

A value that is None is not written. The kernel then keeps its default, which for
every limit here means "unlimited".

The kubelet is assumed to have its default configuration: cpu limits are enforced, containers get
no swap, and an OOM kills a whole container.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias

from bursar.core.model.cgroup.oom import (
    class_on_node,
    oom_scores,
)
from bursar.core.model.cgroup.values import (
    PERIOD_US,
    SHARES_MIN,
    PageSizeError,
    find_page_size,
    hugepage_limits,
    page_size_text,
    quota_from_milli,
    shares_from_milli,
    weight_linear,
    weight_quadratic,
)
from bursar.core.model.demand import KUBELET, container_limits_seen, pod_limits, pod_requests
from bursar.core.model.names import CPU, MEMORY, is_hugepages
from bursar.core.model.pod import MIRROR_ANNOTATION, NO_RESOURCES, Container, Pod
from bursar.core.model.qos import QosClass
from bursar.core.model.quantity import ZERO, Quantity
from bursar.core.model.resources import ResourceList

Files: TypeAlias = dict[str, str | None]
"""Content by file name; None where a file is not written."""

PAGE_SIZES: Final = (2 << 20, 1 << 30)
"""Sizes of hugepages in bytes that a node is assumed to have: those of x86-64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupValues:
    """What is written into one cgroup, whether a pod's or a container's."""

    cpu_shares: int
    cpu_weight: int
    """Cgroup v2 for the shares: the kubelet's rule on pods, today's runtimes' on containers."""
    cpu_quota_us: int | None = None
    """Microseconds of cpu time per period."""
    cpu_period_us: int | None = None
    memory_limit: int | None = None
    """Bytes."""
    hugetlb: Mapping[str, int] = field(default_factory=dict)
    """Bytes by page size, the size spelled as in the names of the files."""

    def v1_files(self) -> Files:
        """Cgroup v1: the content of each file."""
        files: Files = {
            "cpu.shares": str(self.cpu_shares),
            "cpu.cfs_quota_us": _text(self.cpu_quota_us),
            "cpu.cfs_period_us": _text(self.cpu_period_us),
            "memory.limit_in_bytes": _text(self.memory_limit),
        }
        for size, limit in self.hugetlb.items():
            files[f"hugetlb.{size}.limit_in_bytes"] = str(limit)
        return files

    def v2_files(self) -> Files:
        """Cgroup v2: the content of each file, `max` where nothing limits."""
        files: Files = {
            "cpu.weight": str(self.cpu_weight),
            "cpu.max": f"{self.cpu_quota_us or 'max'} {PERIOD_US}",
            "memory.max": _text(self.memory_limit) or "max",
        }
        for size, limit in self.hugetlb.items():
            files[f"hugetlb.{size}.max"] = str(limit)
        return files


class ContainerKind(Enum):
    CONTAINER = "container"
    INIT = "init"
    SIDECAR = "sidecar"
    EPHEMERAL = "ephemeral"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerCgroup:
    name: str
    kind: ContainerKind
    values: CgroupValues
    older_cpu_weight: int
    """`cpu.weight` as written by runtimes before runc 1.3.2 and crun 1.23."""
    oom_score_adj: int | None
    """None where it depends on the node's memory and that is not known."""

    def v1_files(self) -> Files:
        """Cgroup v1: the content of each file. Memory and swap together get no more than memory."""
        files = self.values.v1_files()
        return files | {"memory.memsw.limit_in_bytes": files["memory.limit_in_bytes"]}

    def v2_files(self) -> Files:
        """Cgroup v2: the content of each file, as today's runtimes write it."""
        return self.values.v2_files() | {"memory.swap.max": "0", "memory.oom.group": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PodCgroup:
    qos: QosClass
    name: tuple[str, ...] | None
    """The path before any driver spelled it; None as long as the pod has no usable UID."""
    values: CgroupValues
    containers: tuple[ContainerCgroup, ...]
    """In the order they start: init containers, containers, ephemeral containers."""

    @property
    def cgroupfs_path(self) -> str | None:
        return None if self.name is None else cgroupfs_path(self.name)

    @property
    def systemd_path(self) -> str | None:
        return None if self.name is None else systemd_path(self.name)


def pod_cgroup(pod: Pod, memory_capacity: int | None = None) -> PodCgroup:
    """Everything written for a pod. It must have its defaults, as the API server stores it.

    `memory_capacity` is the node's, in bytes. Without it the OOM score of a Burstable pod is
    unknown.
    """
    kinds = [
        (ContainerKind.SIDECAR if init.is_sidecar else ContainerKind.INIT, init)
        for init in pod.init_containers
    ]
    kinds += [(ContainerKind.CONTAINER, container) for container in pod.containers]
    kinds += [(ContainerKind.EPHEMERAL, container) for container in pod.ephemeral_containers]
    scores = oom_scores(pod, memory_capacity)
    inherited = _named_limits((pod.resources or NO_RESOURCES).limits)
    return PodCgroup(
        qos=class_on_node(pod),
        name=find_cgroup_name(pod),
        values=pod_values(pod),
        containers=tuple(
            ContainerCgroup(
                name=container.name,
                kind=kind,
                values=(values := _container_values(pod, container, inherited)),
                older_cpu_weight=weight_linear(values.cpu_shares),
                oom_score_adj=scores.of(container),
            )
            for kind, container in kinds
        ),
    )


# ------------------------------------------------------------------ the pod's own cgroup


def pod_values(pod: Pod) -> CgroupValues:
    """The pod's own cgroup. A limit is set only if every container has one, or the pod itself."""
    qos = class_on_node(pod)
    requests = pod_requests(pod, KUBELET)
    limited = _spelled(hugepage_limits(requests))
    hugetlb = _host_limits(limited) | limited
    if qos is QosClass.BEST_EFFORT:
        return CgroupValues(
            cpu_shares=SHARES_MIN, cpu_weight=weight_linear(SHARES_MIN), hugetlb=hugetlb
        )
    limits = pod_limits(pod, KUBELET)
    whole = qos is QosClass.GUARANTEED
    capped = whole or _is_limited(pod, CPU)
    quota = quota_from_milli(limits.get(CPU, ZERO).milli_value())
    shares = shares_from_milli(requests.get(CPU, ZERO).milli_value())
    return CgroupValues(
        cpu_shares=shares,
        cpu_weight=weight_linear(shares),
        cpu_quota_us=quota if capped else None,
        cpu_period_us=PERIOD_US if capped else None,
        memory_limit=limits.get(MEMORY, ZERO).value()
        if whole or _is_limited(pod, MEMORY)
        else None,
        hugetlb=hugetlb,
    )


def _is_limited(pod: Pod, name: str) -> bool:
    if pod.resources is not None and not pod.resources.limits.get(name, ZERO).is_zero:
        return True
    lists = container_limits_seen(pod, KUBELET, names=(name,))
    return not any(seen.get(name, ZERO).is_zero for seen in lists)


# ------------------------------------------------------------------ one container


def _container_values(pod: Pod, container: Container, inherited: Mapping[str, int]) -> CgroupValues:
    """One container's cgroup. Where it has no limit, that of the pod applies to it as well.

    `inherited` has the pod's own limits of hugepages.
    """
    requests = container.resources.requests
    cpu_limit = _limit(pod, container, CPU)
    shares = shares_from_milli(requests.get(CPU, cpu_limit).milli_value())
    return CgroupValues(
        cpu_shares=shares,
        cpu_weight=weight_quadratic(shares),
        # The runtime takes 0 for "not set".
        cpu_quota_us=quota_from_milli(cpu_limit.milli_value()) or None,
        cpu_period_us=PERIOD_US,
        memory_limit=_limit(pod, container, MEMORY).value() or None,
        hugetlb=_container_hugetlb(container, inherited),
    )


def _limit(pod: Pod, container: Container, name: str) -> Quantity:
    own = container.resources.limits.get(name, ZERO)
    if own.is_zero and pod.resources is not None:
        return pod.resources.limits.get(name, ZERO)
    return own


def _container_hugetlb(container: Container, inherited: Mapping[str, int]) -> dict[str, int]:
    own = _named_limits(container.resources.limits)
    return {size: own.get(size, limit) for size, limit in _host_limits(inherited).items()}


# ------------------------------------------------------------------ hugepages


def _named_limits(amounts: ResourceList) -> dict[str, int]:
    sized = {
        size: amount.value()
        for name, amount in amounts.items()
        if is_hugepages(name) and (size := find_page_size(name)) is not None
    }
    return _spelled(sized)


def _spelled(limits: Mapping[int, int]) -> dict[str, int]:
    """The limits by the text of the page size; a size without a text is left out."""
    spelled = {}
    for size, limit in limits.items():
        try:
            spelled[page_size_text(size)] = limit % 2**64
        except PageSizeError:
            continue
    return spelled


def _host_limits(limits: Mapping[str, int]) -> dict[str, int]:
    """One limit for each page size of the node, 0 if none is set."""
    return {text: limits.get(text, 0) for text in map(page_size_text, PAGE_SIZES)}


# ------------------------------------------------------------------ names

_ROOT: Final = "kubepods"
_TIERS: Final = {
    QosClass.GUARANTEED: (_ROOT,),
    QosClass.BURSTABLE: (_ROOT, "burstable"),
    QosClass.BEST_EFFORT: (_ROOT, "besteffort"),
}


def find_cgroup_name(pod: Pod) -> tuple[str, ...] | None:
    """The path of the pod's cgroup, before any driver spelled it.

    A mirror pod stands for one the kubelet started from a file, and the cgroup bears
    the UID of that one. None without a UID, or with one the kubelet could not use.
    """
    uid = pod.annotations.get(MIRROR_ANNOTATION, pod.uid)
    if not uid or "/" in uid or "_" in uid:
        return None
    return (*_TIERS[class_on_node(pod)], f"pod{uid}")


def cgroupfs_path(name: tuple[str, ...]) -> str:
    return "/" + "/".join(name)


def systemd_path(name: tuple[str, ...]) -> str:
    """Each slice repeats those it lies in, and `-` inside a part becomes `_`.

    >>> systemd_path(("kubepods", "burstable", "pod12-ab"))
    '/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod12_ab.slice'
    """
    parts = [part.replace("-", "_") for part in name]
    slices = ["-".join(parts[: count + 1]) + ".slice" for count in range(len(parts))]
    return "/" + "/".join(slices)


def _text(number: int | None) -> str | None:
    """The text of a number; None for zero, which the writers of the files treat as "not set"."""
    return str(number) if number else None
