"""Who gives devices to pods, and how it writes that down.

A source is data: where its annotation is, what it looks like, and under which names the
devices are known to clients of kubelet. Other central allocators need a row, not code.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Final

NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})
PARTITION_PREFIXES: Final = ("MIG-",)
"""Of ids that name a part which the hardware itself cut off. No inventory lists these."""


def no_names() -> Mapping[str, str]:
    """The empty mapping, shared; a default for dataclass fields."""
    return NO_NAMES


class Shape(Enum):
    """What the text of an annotation is."""

    BY_TYPE = "byType"
    """A JSON object: kind to list of devices. Koordinator's."""
    LIST = "list"
    """A JSON list of devices, each of which says its kind, and maybe its container."""
    BY_CONTAINER = "byContainer"
    """A JSON object: name of a container to list of devices, each of which says its kind."""
    DELIMITED = "delimited"
    """No JSON: containers, their devices and the fields of these, cut by three signs. HAMi's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """The keys of a device in JSON. An empty name: the source has no such thing."""

    device: str = "id"
    minor: str = "minor"
    kind: str = "type"
    vendor: str = "vendor"
    container: str = "container"
    amounts: str = "resources"
    extension: str = "extension"
    functions: str = "vfs"
    """In the extension, as are the next two."""
    function_address: str = "busID"
    template: str = "gpuSharedResourceTemplate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delimiters:
    """How a delimited text is cut: `GPU-1,NVIDIA,3000,30:GPU-2,NVIDIA,3000,30:;`."""

    containers: str = ";"
    """Between the app containers of the pod, in their order."""
    devices: str = ":"
    fields: str = ","
    order: tuple[str, ...] = ("device", "vendor")
    """What stands where: `device`, `minor`, `kind`, `vendor`, `container`, `template`, the name
    of a resource (with a slash in it) for an amount, or nothing for what is not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    shape: Shape = Shape.BY_TYPE
    fields: Fields = field(default_factory=Fields)
    delimiters: Delimiters = field(default_factory=Delimiters)
    kind: str = ""
    """The kind of devices that do not say it themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindRule:
    """What one kind of device is called, and how much of it is meant by an amount."""

    resource: str
    """The name where nothing below says better."""
    by_vendor: Mapping[str, str] = field(default_factory=no_names)
    """Vendors in small letters."""
    by_prefix: Mapping[str, str] = field(default_factory=no_names)
    """By how the id begins, for devices whose vendor is not told."""
    asked_by: tuple[str, ...] = ()
    """Names by which pods ask for it. Empty: the names above."""
    counted: tuple[str, ...] = ()
    """Those of them that count devices: a pod is given no more than it asks for by these."""
    percent: tuple[str, ...] = ()
    """Those of them, and of an annotation's amounts, that are in percent of one device."""
    is_bounded: bool = False
    """Whether percent that a pod asks for bound the number of devices as well: one for each
    hundred, and one for any other name that is asked by. Not so where they are meant for each
    device, or where a pod may be given devices that go with others."""
    is_numbered: bool = False
    """Whether clients understand `::0` after the id of a shared one."""

    def name_of(self, *, device: str, vendor: str) -> str:
        if vendor:
            return self.by_vendor.get(vendor.lower(), self.resource)
        return next(
            (name for prefix, name in self.by_prefix.items() if device.startswith(prefix)),
            self.resource,
        )

    @property
    def names(self) -> frozenset[str]:
        """All names that such a device can have."""
        return frozenset((self.resource, *self.by_vendor.values(), *self.by_prefix.values()))

    @property
    def askers(self) -> frozenset[str]:
        """The names of which a pod must ask for one."""
        return frozenset(self.asked_by) or self.names

    @property
    def counts(self) -> frozenset[str]:
        """The names that count devices; without any word on amounts, the device's own."""
        return frozenset(self.counted) or (frozenset() if self.percent else self.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    name: str
    annotation: str
    layout: Layout = field(default_factory=Layout)
    kinds: Mapping[str, KindRule]
    is_inventoried: bool = False
    """Whether the inventory lists what this source gives, so that the rest is not believed."""


KOORDINATOR: Final = Source(
    name="koordinator",
    annotation="scheduling.koordinator.sh/device-allocated",
    is_inventoried=True,
    # It writes no vendor. Whoever does would have the device called by another name.
    layout=Layout(fields=Fields(vendor="")),
    kinds=MappingProxyType(
        {
            "gpu": KindRule(
                resource="koordinator.sh/gpu",
                # What each vendor's own device plugin registers. Huawei's and Cambricon's can
                # also be told to name the model; whoever does that says so in the settings.
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
                # Only NVML writes ids like these.
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
                    # Older schedulers wrote these.
                    "kubernetes.io/gpu-core",
                    "kubernetes.io/gpu-memory-ratio",
                ),
                is_bounded=True,
                is_numbered=True,
            ),
            # Pods may be given all of these that a node has, or one beside each GPU.
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
