"""An OCI image layout in one tar file, as `ctr images import`, podman and skopeo read it."""

import io
import json
import tarfile
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from image_parts.tree import Layer, digest_of

MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
CONFIG: Final = "application/vnd.oci.image.config.v1+json"
LAYER: Final = "application/vnd.oci.image.layer.v1.tar+gzip"
INDEX: Final = "application/vnd.oci.image.index.v1+json"
DEFAULT_HOST: Final = "docker.io"
"""Kubernetes and containerd complete a name that has no host with this one."""


@dataclass(frozen=True)
class Archive:
    data: bytes
    digest: str
    """Of the manifest: the digest that a pod can name."""


def full_name(name: str, tag: str) -> str:
    """The name as containerd stores it.

    >>> full_name("bursar", "1.0")
    'docker.io/library/bursar:1.0'
    >>> full_name("localhost/bursar:test", "1.0")
    'localhost/bursar:test'
    >>> full_name("registry:5000/team/bursar", "1.0")
    'registry:5000/team/bursar:1.0'
    """
    first, _, rest = name.partition("/")
    is_host = bool(rest) and (first == "localhost" or "." in first or ":" in first)
    if not is_host:
        name = f"{DEFAULT_HOST}/{name if rest else f'library/{name}'}"
    is_tagged = ":" in name.rpartition("/")[2]
    return name if is_tagged else f"{name}:{tag}"


def archive_of(
    layers: list[Layer], settings: dict[str, Any], *, architecture: str, name: str, epoch: int
) -> Archive:
    """Pack the layers with their configuration. `settings` are those of a container."""
    created = datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    platform = {"architecture": architecture, "os": "linux"}
    config = _json(
        {
            "created": created,
            **platform,
            "config": settings,
            "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
            "history": [{"created": created, "created_by": layer.title} for layer in layers],
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": _descriptor(CONFIG, config),
            "layers": [_descriptor(LAYER, layer.blob) for layer in layers],
            "annotations": settings["Labels"],
        }
    )
    names = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}
    listed = {**_descriptor(MANIFEST, manifest), "platform": platform, "annotations": names}
    index = _json({"schemaVersion": 2, "mediaType": INDEX, "manifests": [listed]})
    blobs = [config, manifest, *[layer.blob for layer in layers]]
    files = {
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        "index.json": index,
        **{f"blobs/{digest_of(blob).replace(':', '/')}": blob for blob in blobs},
    }
    return Archive(_tar(files, epoch), digest_of(manifest))


def _descriptor(kind: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": kind, "digest": digest_of(blob), "size": len(blob)}


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _tar(files: dict[str, bytes], mtime: int) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for folder in ("blobs", "blobs/sha256"):
            info = tarfile.TarInfo(folder)
            info.type, info.mode, info.mtime = tarfile.DIRTYPE, 0o755, mtime
            tar.addfile(info)
        for name, data in sorted(files.items()):
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), mtime
            tar.addfile(info, io.BytesIO(data))
    return written.getvalue()
