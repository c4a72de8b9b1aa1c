"""Container images made from files, as archives that `RealNode.import_image` reads.

An archive has one layer. Its images are named below `localhost/`, so that no registry is meant.
"""

import hashlib
import io
import json
import platform
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PAUSE = "localhost/pause:1"
BUSYBOX = "localhost/busybox:1"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
DIRECTORY, STICKY_DIRECTORY, PROGRAM, PLAIN = 0o755, 0o1777, 0o755, 0o644


@dataclass(frozen=True)
class ImageConfig:
    """What a container of the image runs, unless its pod says otherwise."""

    entrypoint: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    user: str = ""


def write_image(archive: Path, reference: str, layer: bytes, config: ImageConfig) -> Path:
    """Write an OCI archive with one image; `layer` is an uncompressed tar of its root folder."""
    layer_entry = _descriptor("application/vnd.oci.image.layer.v1.tar", layer)
    settings = {
        "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {
            "Entrypoint": list(config.entrypoint),
            "Env": [f"{name}={value}" for name, value in config.environment.items()],
            "User": config.user,
        },
        "rootfs": {"type": "layers", "diff_ids": [layer_entry["digest"]]},
    }
    settings_blob = json.dumps(settings).encode()
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": _descriptor("application/vnd.oci.image.config.v1+json", settings_blob),
        "layers": [layer_entry],
    }
    manifest_blob = json.dumps(manifest).encode()
    entry = _descriptor("application/vnd.oci.image.manifest.v1+json", manifest_blob)
    named = {**entry, "annotations": {"io.containerd.image.name": reference}}
    index = {"schemaVersion": 2, "manifests": [named]}
    with tarfile.open(archive, "w") as tar:
        _add(tar, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}', PLAIN)
        _add(tar, "index.json", json.dumps(index).encode(), PLAIN)
        for blob in (layer, settings_blob, manifest_blob):
            _add(tar, f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}", blob, PLAIN)
    return archive


def write_pause_image(archive: Path, program: Path) -> Path:
    """The image of the container that holds a pod's namespaces."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        _add(tar, "pause", program.read_bytes(), PROGRAM)
    return write_image(archive, PAUSE, buffer.getvalue(), ImageConfig(entrypoint=["/pause"]))


def write_busybox_image(archive: Path, program: Path) -> Path:
    """A shell and its tools, from a static busybox. It runs `sh`, unless the pod says otherwise."""
    listed = subprocess.run([str(program), "--list"], capture_output=True, text=True, check=True)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for folder in ("bin", "etc", "root", "var"):
            _add_folder(tar, folder, DIRECTORY)
        _add_folder(tar, "tmp", STICKY_DIRECTORY)
        _add(tar, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n", PLAIN)
        _add(tar, "bin/busybox", program.read_bytes(), PROGRAM)
        for tool in sorted(set(listed.stdout.split()) - {"busybox"}):
            link = tarfile.TarInfo(f"bin/{tool}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    config = ImageConfig(entrypoint=["/bin/sh"], environment={"PATH": "/bin"})
    return write_image(archive, BUSYBOX, buffer.getvalue(), config)


def _descriptor(media_type: str, blob: bytes) -> dict[str, str | int]:
    digest = hashlib.sha256(blob).hexdigest()
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(blob)}


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))


def _add_folder(tar: tarfile.TarFile, name: str, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, mode
    tar.addfile(entry)
