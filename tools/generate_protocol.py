"""Compile api/podresources/*.proto into src/bursar/wire/devices/pod_resources.

The generated modules are kept in the repository, so installing Bursar needs no compiler.
"""

import sys
from pathlib import Path
from typing import Final

from grpc_tools import protoc

ROOT: Final = Path(__file__).parents[1]
PROTOCOLS: Final = ROOT / "api" / "podresources"
PACKAGE: Final = "bursar/wire/devices/pod_resources"
"""Upstream calls both of its files `api.proto`; a process can know only one of that name."""


def generate(into: Path) -> list[Path]:
    """Compile every protocol; the modules lie in their package's folders below `into`."""
    names = sorted(path.name for path in PROTOCOLS.glob("*.proto"))
    code = protoc.main(
        [
            "protoc",
            f"--proto_path={PACKAGE}={PROTOCOLS}",
            f"--python_out={into}",
            f"--pyi_out={into}",
            *[f"{PACKAGE}/{name}" for name in names],
        ]
    )
    if code:
        raise SystemExit(code)
    return sorted((into / PACKAGE).glob("*_pb2.py*"))


if __name__ == "__main__":
    for module in generate(ROOT / "src"):
        print(module.relative_to(ROOT), file=sys.stderr)
