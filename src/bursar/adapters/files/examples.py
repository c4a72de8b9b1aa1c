"""The example files that are packaged with Bursar: their list, and copies of them."""

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from bursar.adapters.files.packaged import packaged
from bursar.app.bad_input import BadInputError

README: Final = "README.md"
_ENTRY: Final = re.compile(r"^- `([^`]+)`: (.+)$", re.MULTILINE)


def example_lines() -> Mapping[str, str]:
    """Each example, a file or a folder, with the line that its README has about it."""
    text = Path(packaged("examples"), README).read_text(encoding="utf-8")
    return dict(_ENTRY.findall(text))


def copy_examples(names: Sequence[str], folder: Path, *, is_forced: bool) -> list[Path]:
    """Copy examples into a folder, which is created; return the files. Raises `BadInputError`.

    Nothing is copied if one of the files is there already, unless that is forced.
    """
    sources = Path(packaged("examples"))
    copies = {
        folder / path.relative_to(sources): path
        for name in names
        for path in sorted(_files(sources / name))
    }
    present = [str(path) for path in copies if path.exists() or path.is_symlink()]
    if present and not is_forced:
        more = f" and {len(present) - 1} more" if len(present) > 1 else ""
        raise BadInputError(f"{present[0]}{more}: already there; --force overwrites them")
    try:
        for target, source in copies.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    except OSError as error:
        raise BadInputError(f"{error.filename or folder}: {error.strerror}") from None
    return list(copies)


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return [each for each in path.rglob("*") if each.is_file() and "__pycache__" not in each.parts]
