"""The mounts of this process: which filesystem a folder is on."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MOUNTS: Final = "/proc/self/mountinfo"
_ESCAPED: Final = re.compile(rb"\\([0-7]{3})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    folder: str
    kind: str
    """Type of the filesystem, such as `ext4`."""
    source: str
    """The block device, if the filesystem has one."""
    options: frozenset[str]
    """Options of the mount and of the filesystem."""
    device: str
    """Numbers of the device, as in `8:1`."""


def parse_mounts(text: bytes) -> Sequence[Mount]:
    """The content of `/proc/self/mountinfo`. Lines of another shape are left out."""
    found = []
    for line in text.splitlines():
        first, separator, second = line.partition(b" - ")
        left, right = first.split(b" "), second.split(b" ")
        if not separator or len(left) < 6 or len(right) < 3:
            continue
        options = left[5].split(b",") + right[2].split(b",")
        found.append(
            Mount(
                folder=_text(left[4]),
                kind=_text(right[0]),
                source=_text(right[1]),
                options=frozenset(map(_text, options)),
                device=_text(left[2]),
            )
        )
    return found


def mount_of(path: str, mounts: Sequence[Mount]) -> Mount | None:
    """The mount that a folder is on; None if no mount has its device. Raises `OSError`."""
    real = os.path.realpath(path)
    number = Path(real).stat().st_dev
    device = f"{os.major(number)}:{os.minor(number)}"
    candidates = [each for each in mounts if each.device == device and _is_below(real, each.folder)]
    # Of nested mount points, the deepest one counts.
    return max(candidates, key=lambda each: len(each.folder), default=None)


def read_mounts() -> Sequence[Mount]:
    """The mounts of this process. Raises `OSError`."""
    return parse_mounts(Path(MOUNTS).read_bytes())


def _is_below(path: str, folder: str) -> bool:
    return folder in {"/", path} or path.startswith(f"{folder}/")


def _text(escaped: bytes) -> str:
    return os.fsdecode(_ESCAPED.sub(lambda found: bytes([int(found[1], 8)]), escaped))
