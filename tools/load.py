"""`make load`: give the image that `make image` built to the node of `make cluster NODE=real`.

The node is that of the cluster that `$KUBECONFIG` names. It can also be in a virtual machine, as
`make cluster NODE=vm` has it.
"""

import argparse
import os
import sys
from pathlib import Path

from image import native_architecture
from real_node import RealNodeError, node, vm

HINT = "set KUBECONFIG to the path that `make cluster NODE=real` prints"
SOCKETS = {node.NAME: node.socket_path, vm.NAME: vm.socket_path}
IMPORTS = {node.NAME: node.import_archive, vm.NAME: vm.import_archive}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("dist"), help="where make image writes to")
    options = parser.parse_args()
    try:
        archive = newest_archive(options.out)
        kubeconfig = os.environ.get("KUBECONFIG", "")
        name = node_of(kubeconfig)
        IMPORTS[name](Path(kubeconfig).parent, archive)
    except RealNodeError as error:
        print(f"load: {error}", file=sys.stderr)
        return 1
    print(f"{name} has the image of {archive}")
    return 0


def newest_archive(folder: Path) -> Path:
    """The image of this machine's architecture that was built last. Raises `RealNodeError`."""
    pattern = f"bursar-*-{native_architecture()}.oci.tar"
    found = sorted(folder.glob(pattern), key=lambda path: path.stat().st_mtime)
    if not found:
        raise RealNodeError(f"no image in {folder}: run `make image`")
    return found[-1]


def node_of(kubeconfig: str) -> str:
    """The name of the real node whose cluster has this kubeconfig. Raises `RealNodeError`."""
    if not kubeconfig:
        raise RealNodeError(HINT)
    for name, socket_path in SOCKETS.items():
        if socket_path(Path(kubeconfig).parent).is_socket():
            return name
    raise RealNodeError(f"{kubeconfig} is of no cluster with a real node: {HINT}")


if __name__ == "__main__":
    sys.exit(main())
