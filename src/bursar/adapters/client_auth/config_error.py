"""The error for settings of a connection that cannot be used."""

from typing import Final

from bursar.app.bad_input import BadInputError
from bursar.wire.structs.fields import printable

_LENGTH_MAX: Final = 2048


class ConfigError(BadInputError):
    """A setting that cannot be used: one line that names the file, the key and the reason.

    The line never holds a token, a password, a private key or an argument of an exec plugin.
    """

    def __init__(self, place: str, problem: str) -> None:
        line = f"{place}: {problem}" if place else problem
        super().__init__(printable(line, _LENGTH_MAX))
