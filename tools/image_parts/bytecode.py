"""Bytecode for the Python files of an image, so that a process on a read-only root starts fast.

The compiled files do not depend on times: Python trusts them without looking at the source
(PEP 552, unchecked-hash).
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from image_parts.tree import File, Tree

SELDOM: Final = "/pygments/"
"""Large, and loaded by no process of Bursar."""
COMPILE: Final = ("-m", "compileall", "-q", "-q", "--invalidation-mode", "unchecked-hash")


def compiled(tree: Tree, python: str) -> Tree:
    """The bytecode of all Python files of the tree.

    Only the image's version of Python can make it. Another version makes none, and says so.
    """
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    if running != python:
        print(
            f"image: no bytecode, so processes start slower: this is Python {running}, and the "
            f"image has {python}. For bytecode, build with PYTHON=python{python}.",
            file=sys.stderr,
        )
        return {}
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        for name, entry in tree.items():
            is_source = name.endswith(".py") and SELDOM not in name
            if is_source and isinstance(entry, File):
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(entry.data)
        # One fresh process and a fixed order: marshalled constants depend on earlier files.
        subprocess.run(
            [sys.executable, "-I", *COMPILE, "-s", scratch, "-p", "/", scratch],
            env={**os.environ, "PYTHONHASHSEED": "0"},
            check=False,  # A file that does not compile has no bytecode.
        )
        return {
            str(path.relative_to(root)): File(path.read_bytes()) for path in root.rglob("*.pyc")
        }
