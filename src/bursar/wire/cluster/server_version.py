"""The version of an API server, as its path /version gives it."""

import re
from typing import NamedTuple

from bursar.wire.structs.body import decode_body
from bursar.wire.structs.struct import Struct


class ServerVersion(NamedTuple):
    """The version whose APIs a server offers, and the full text of its own."""

    major: int
    minor: int
    text: str

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


class _Info(Struct):
    major: str | None = None
    minor: str | None = None
    emulation_major: str | None = None
    """If the server emulates an older version; its APIs and features are those of that one."""
    emulation_minor: str | None = None
    git_version: str | None = None


def decode_server_version(body: bytes) -> ServerVersion:
    """Raises `ValueError`.

    >>> decode_server_version(b'{"major": "1", "minor": "34+", "gitVersion": "v1.34.4-eks"}')
    ServerVersion(major=1, minor=34, text='v1.34.4-eks')
    """
    info = decode_body(body, _Info)
    major = _number(info.emulation_major or info.major)
    minor = _number(info.emulation_minor or info.minor)
    return ServerVersion(major, minor, info.git_version or "")


def _number(text: str | None) -> int:
    """Some vendors write a plus sign after the minor version."""
    found = re.match(r"[0-9]{1,4}", text or "")
    if found is None:
        raise ValueError(f"{text!r} is not the number of a version")
    return int(found.group())
