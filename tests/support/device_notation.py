"""Pods, containers and claims of devices in few words, as the core knows them."""

from typing import Any

from bursar.core.devices.claim import Claim, Claims
from bursar.core.devices.pod import DeviceContainer, DevicePod
from bursar.core.devices.source import KOORDINATOR, KindRule, Source

HAMI = Source(
    name="hami",
    annotation="hami.io/vgpu-devices-allocated",
    kinds={
        "gpu": KindRule(
            resource="nvidia.com/gpu",
            percent=("nvidia.com/gpucores",),
            counted=("nvidia.com/gpu",),
            is_numbered=True,
        )
    },
)
SOURCES = {"koordinator": KOORDINATOR, "hami": HAMI}
NAMES = {
    "gpu": "nvidia.com/gpu",
    "core": "koordinator.sh/gpu-core",
    "memory": "koordinator.sh/gpu-memory",
    "rdma": "koordinator.sh/rdma",
    "fpga": "koordinator.sh/fpga",
    "npu": "huawei.com/npu-core",
    "percent": "koordinator.sh/gpu",
    "ratio": "koordinator.sh/gpu-memory-ratio",
    "shared": "koordinator.sh/gpu.shared",
}


def a_container(name: str = "main", **asks: int) -> DeviceContainer:
    return DeviceContainer(name=name, asks={NAMES[key]: amount for key, amount in asks.items()})


ASKS_ALL = a_container(gpu=8, rdma=100)


def gpu_pod(
    *claims: Claim, name: str = "web", source: str = KOORDINATOR.name, **fields: Any
) -> DevicePod:
    """A pod that asks for many devices, and what one source's annotation gives to it."""
    said = (Claims(source=source, claims=claims),) if claims else ()
    usual = {"namespace": "default", "containers": (ASKS_ALL,), "claims": said}
    return DevicePod(name=name, **{**usual, **fields})


def a_gpu(device: str = "GPU-0", **fields: Any) -> Claim:
    return Claim(kind="gpu", device=device, **fields)
