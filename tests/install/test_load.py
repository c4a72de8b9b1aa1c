"""`make load` finds the image that was built last, and the node of the named cluster."""

import os
import socket
import tempfile
from pathlib import Path

import pytest

from image import native_architecture
from load import HINT, newest_archive, node_of
from real_node import RealNodeError


def archive(folder, version, built_at):
    path = folder / f"bursar-{version}-{native_architecture()}.oci.tar"
    path.touch()
    os.utime(path, (built_at, built_at))
    return path


def test_the_image_that_was_built_last_is_taken(tmp_path):
    archive(tmp_path, "0.2.0", built_at=1)
    latest = archive(tmp_path, "0.1.0", built_at=2)
    (tmp_path / "bursar-0.3.0-other.oci.tar").touch()

    assert newest_archive(tmp_path) == latest


def test_without_an_image_it_is_said_how_to_build_one(tmp_path):
    with pytest.raises(RealNodeError, match="run `make image`"):
        newest_archive(tmp_path)


@pytest.mark.parametrize(
    ("name", "path"),
    [("real-0", "real-0/containerd.sock"), ("vm-0", "vm-0-machine/shell.sock")],
)
def test_the_node_is_found_by_the_kubeconfig(name, path):
    # A short path, as the kernel wants it for sockets.
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listening:
        wanted = Path(folder, path)
        wanted.parent.mkdir()
        listening.bind(str(wanted))

        assert node_of(str(Path(folder, "admin.kubeconfig"))) == name


@pytest.mark.parametrize("kubeconfig", ["", "elsewhere/config"])
def test_a_cluster_without_a_real_node_is_refused(kubeconfig):
    with pytest.raises(RealNodeError) as refusal:
        node_of(kubeconfig)

    assert HINT in str(refusal.value)
