"""The one error of everything that is wrong with how a cluster is to be reached."""

from typing import Final

from bursar.wire.structs.fields import printable

_LENGTH_MAX: Final = 2048


class ConfigError(Exception):
    """A configuration that cannot be used: one line that names the file, the key and the reason.

    It never holds a token, a password, a key or an argument of a plugin.
    """

    def __init__(self, place: str, problem: str) -> None:
        line = f"{place}: {problem}" if place else problem
        super().__init__(printable(line, _LENGTH_MAX))
