"""Pods, summaries and measures of local ephemeral storage in one line."""

from bursar.app.storage.ports import DiskUse
from bursar.core.model.quantity import ZERO, Quantity
from bursar.core.storage.pod import EmptyDirVolume, StorageContainer, StoragePod
from bursar.core.storage.summary import PodSummary
from bursar.core.storage.usage import ContainerUse, Measure


def a_storage_pod(name="web", *, limit="", request="", volumes=(), **fields):
    """A pod with one container `app`; `volumes` are names, or names with a size: `cache=1Gi`."""
    parsed = [volume.partition("=") for volume in volumes]
    return StoragePod(
        namespace="shop",
        name=name,
        uid=f"uid-{name}",
        limit=Quantity.parse(limit) if limit else None,
        request=Quantity.parse(request) if request else ZERO,
        containers=(StorageContainer(name="app", limit=Quantity.parse(limit) if limit else None),),
        volumes=tuple(
            EmptyDirVolume(name=each, size_limit=Quantity.parse(size) if size else None)
            for each, _, size in parsed
        ),
        **fields,
    )


def a_pod_summary(writable=0, logs=0, volumes=None, ephemeral=None):
    return PodSummary(
        namespace="shop",
        name="web",
        uid="uid-web",
        containers={"app": ContainerUse(writable=writable, logs=logs)},
        volumes=volumes or {},
        ephemeral=ephemeral,
    )


def a_disk_use(logs=0, other=0, **volumes):
    return DiskUse(
        volumes={name: Measure(used=used) for name, used in volumes.items()},
        logs={"app": logs},
        other=other,
    )
