"""Compile the protocols of api/ into the packages of `wire` that use them.

The generated modules are kept in the repository, so installing Bursar needs no compiler.
"""

import sys
from pathlib import Path
from typing import Final

from grpc_tools import protoc

ROOT: Final = Path(__file__).parents[1]
PACKAGES: Final = {
    # Upstream calls both of its files `api.proto`; a process can know only one of that name.
    "podresources": "bursar/wire/devices/pod_resources",
    "evaluate": "bursar/wire/counting/protocol",
}
"""Packages by their folder of api/."""


def generate(into: Path) -> list[Path]:
    """Compile every protocol; the modules lie in their package's folders below `into`."""
    made: list[Path] = []
    for folder, package in PACKAGES.items():
        protocols = ROOT / "api" / folder
        code = protoc.main(
            [
                "protoc",
                f"--proto_path={package}={protocols}",
                f"--python_out={into}",
                f"--pyi_out={into}",
                *[f"{package}/{path.name}" for path in sorted(protocols.glob("*.proto"))],
            ]
        )
        if code:
            raise SystemExit(code)
        made += sorted((into / package).glob("*_pb2.py*"))
    return made


if __name__ == "__main__":
    for module in generate(ROOT / "src"):
        print(module.relative_to(ROOT), file=sys.stderr)
