"""Sources: programs that allocate devices to pods and record it in a pod annotation.

A source is data: the key of its annotation, the layout of the text, and the resource names under
which kubelet's clients know the devices. Supporting another allocator takes a row, not code.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Final

NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})
PARTITION_PREFIXES: Final = ("MIG-",)
"""Prefixes of ids that name a hardware partition. No inventory lists partitions."""


def no_names() -> Mapping[str, str]:
    """The shared empty mapping; a default factory for dataclass fields."""
    return NO_NAMES


class Shape(Enum):
    """The form of an annotation's text."""

    BY_TYPE = "byType"
    """A JSON object: kind to list of devices. Koordinator writes this."""
    LIST = "list"
    """A JSON list of devices. Each names its kind, and may name its container."""
    BY_CONTAINER = "byContainer"
    """A JSON object: container name to list of devices. Each device names its kind."""
    DELIMITED = "delimited"
    """Not JSON: containers, devices and fields, separated by three signs. HAMi writes this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """The JSON keys of a device. An empty key: the source does not write that field."""

    device: str = "id"
    minor: str = "minor"
    kind: str = "type"
    vendor: str = "vendor"
    container: str = "container"
    amounts: str = "resources"
    extension: str = "extension"
    functions: str = "vfs"
    """A key inside `extension`, like `function_address` and `template`."""
    function_address: str = "busID"
    template: str = "gpuSharedResourceTemplate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delimiters:
    """How a delimited text is split: `GPU-1,NVIDIA,3000,30:GPU-2,NVIDIA,3000,30:;`."""

    containers: str = ";"
    """Separates the app containers of the pod, in their order."""
    devices: str = ":"
    fields: str = ","
    order: tuple[str, ...] = ("device", "vendor")
    """The meaning of each field: `device`, `minor`, `kind`, `vendor`, `container`, `template`, a
    resource name (with a slash) for an amount, or empty for a field that is skipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    shape: Shape = Shape.BY_TYPE
    fields: Fields = field(default_factory=Fields)
    delimiters: Delimiters = field(default_factory=Delimiters)
    kind: str = ""
    """The kind of devices that do not name their kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindRule:
    """The resource names of one kind of device, and what amounts of them mean."""

    resource: str
    """The resource name if neither `by_vendor` nor `by_prefix` applies."""
    by_vendor: Mapping[str, str] = field(default_factory=no_names)
    """Resource name by vendor; vendors are in lower case."""
    by_prefix: Mapping[str, str] = field(default_factory=no_names)
    """Resource name by prefix of the id, for devices without a vendor."""
    asked_by: tuple[str, ...] = ()
    """Resource names by which pods request the device. Empty: the names above."""
    counted: tuple[str, ...] = ()
    """Resource names that count devices: a pod gets no more devices than it requests of them."""
    percent: tuple[str, ...] = ()
    """Resource names, in requests and in annotations, that are percent of one device."""
    is_bounded: bool = False
    """Whether the requested percent also limits the number of devices: one device for each 100,
    and one for any other requested name. False if the percent applies to each device, or if a pod
    may get devices that belong to others, as network ports beside GPUs do."""
    is_numbered: bool = False
    """Whether clients understand `::0` after the id of a shared device."""
    charged_as: str = ""
    """The resource name by which quotas limit devices of this kind. Empty: kind and source, such
    as `gpu/koordinator`."""

    def name_of(self, *, device: str, vendor: str) -> str:
        if vendor:
            return self.by_vendor.get(vendor.lower(), self.resource)
        return next(
            (name for prefix, name in self.by_prefix.items() if device.startswith(prefix)),
            self.resource,
        )

    @property
    def names(self) -> frozenset[str]:
        """All resource names that a device of this kind can have."""
        return frozenset((self.resource, *self.by_vendor.values(), *self.by_prefix.values()))

    @property
    def askers(self) -> frozenset[str]:
        """The resource names of which a pod must request at least one."""
        return frozenset(self.asked_by) or self.names

    @property
    def counts(self) -> frozenset[str]:
        """The resource names that count devices. Without `counted` and `percent`: all names."""
        return frozenset(self.counted) or (frozenset() if self.percent else self.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    name: str
    annotation: str
    layout: Layout = field(default_factory=Layout)
    kinds: Mapping[str, KindRule]
    is_inventoried: bool = False
    """Whether the inventory lists this source's devices; others are then rejected, and all of them
    while the inventory is unknown: see `Rules.needs_inventory`."""


KOORDINATOR: Final = Source(
    name="koordinator",
    annotation="scheduling.koordinator.sh/device-allocated",
    is_inventoried=True,
    # Koordinator writes no vendor. A forged one would change the resource name of the device.
    layout=Layout(fields=Fields(vendor="")),
    kinds=MappingProxyType(
        {
            "gpu": KindRule(
                resource="koordinator.sh/gpu",
                # What each vendor's device plugin registers. Huawei's and Cambricon's can be
                # configured to register the model's name; the settings file covers that.
                by_vendor=MappingProxyType(
                    {
                        "nvidia": "nvidia.com/gpu",
                        "amd": "amd.com/gpu",
                        "huawei": "huawei.com/Ascend910",
                        "cambricon": "cambricon.com/mlu",
                        "metax": "metax-tech.com/gpu",
                        "baidu": "baidu.com/xpu",
                    }
                ),
                # Only NVML writes ids with these prefixes.
                by_prefix=MappingProxyType({"GPU-": "nvidia.com/gpu", "MIG-": "nvidia.com/gpu"}),
                asked_by=(
                    "nvidia.com/gpu",
                    "amd.com/gpu",
                    "dcu.com/gpu",
                    "koordinator.sh/gpu",
                    "koordinator.sh/gpu.shared",
                    "koordinator.sh/gpu-core",
                    "koordinator.sh/gpu-memory",
                    "koordinator.sh/gpu-memory-ratio",
                    "huawei.com/npu-core",
                    "huawei.com/npu-cpu",
                    "huawei.com/npu-dvpp",
                ),
                counted=(
                    "nvidia.com/gpu",
                    "amd.com/gpu",
                    "dcu.com/gpu",
                    "koordinator.sh/gpu.shared",
                ),
                percent=(
                    "koordinator.sh/gpu",
                    "koordinator.sh/gpu-core",
                    "koordinator.sh/gpu-memory-ratio",
                    # Written by older versions of the scheduler.
                    "kubernetes.io/gpu-core",
                    "kubernetes.io/gpu-memory-ratio",
                ),
                is_bounded=True,
                is_numbered=True,
            ),
            # A pod may get all RDMA devices of a node, or one beside each GPU.
            "rdma": KindRule(
                resource="koordinator.sh/rdma",
                asked_by=("koordinator.sh/rdma",),
                percent=("koordinator.sh/rdma",),
            ),
            "fpga": KindRule(
                resource="koordinator.sh/fpga",
                asked_by=("koordinator.sh/fpga",),
                percent=("koordinator.sh/fpga",),
            ),
            "xpu": KindRule(
                resource="koordinator.sh/xpu",
                asked_by=("koordinator.sh/xpu",),
                percent=("koordinator.sh/xpu",),
            ),
        }
    ),
)
