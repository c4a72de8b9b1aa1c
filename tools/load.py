"""`make load`: give the image that `make image` built to the node of `make cluster NODE=real`.

The node is that of the cluster that `$KUBECONFIG` names.
"""

import argparse
import os
import sys
from pathlib import Path

from image import native_architecture
from real_node import RealNodeError
from real_node.node import CONTAINERD_SOCKET, NAME, import_archive

HINT = "set KUBECONFIG to the path that `make cluster NODE=real` prints"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("dist"), help="where make image writes to")
    options = parser.parse_args()
    try:
        archive = newest_archive(options.out)
        import_archive(containerd_socket(os.environ.get("KUBECONFIG", "")), archive)
    except RealNodeError as error:
        print(f"load: {error}", file=sys.stderr)
        return 1
    print(f"{NAME} has the image of {archive}")
    return 0


def newest_archive(folder: Path) -> Path:
    """The image of this machine's architecture that was built last. Raises `RealNodeError`."""
    pattern = f"bursar-*-{native_architecture()}.oci.tar"
    found = sorted(folder.glob(pattern), key=lambda path: path.stat().st_mtime)
    if not found:
        raise RealNodeError(f"no image in {folder}: run `make image`")
    return found[-1]


def containerd_socket(kubeconfig: str) -> Path:
    """The socket of the node whose cluster has this kubeconfig. Raises `RealNodeError`."""
    if not kubeconfig:
        raise RealNodeError(HINT)
    socket = Path(kubeconfig).parent / NAME / CONTAINERD_SOCKET
    if not socket.is_socket():
        raise RealNodeError(f"{kubeconfig} is of no cluster with a real node: {HINT}")
    return socket


if __name__ == "__main__":
    sys.exit(main())
