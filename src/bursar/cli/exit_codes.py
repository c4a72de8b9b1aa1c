"""How a command ends: the exit codes, and the error that means the input could not be read."""

from typing import Final

OK: Final = 0
"""Done, and the answer is yes."""
NO: Final = 1
"""Done, and the answer is no: a quantity or an object is not valid."""
BAD_INPUT: Final = 2
"""The command line or a file could not be read; one line on stderr says what, where and why."""
INTERRUPTED: Final = 130
"""Ctrl-C."""


class BadInputError(Exception):
    """Input that cannot be read. Its text is one line that names the place."""
