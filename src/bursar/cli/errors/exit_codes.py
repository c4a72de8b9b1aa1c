"""How a command ends: the exit codes, and the error that means the input could not be read."""

from typing import Final

from bursar.app.bad_input import BadInputError

__all__ = ["BAD_INPUT", "INTERRUPTED", "NO", "OK", "BadInputError"]

OK: Final = 0
"""Done, and the answer is yes."""
NO: Final = 1
"""Done, and the answer is no: a quantity or an object is not valid."""
BAD_INPUT: Final = 2
"""The command line or a file could not be read; one line on stderr says what, where and why."""
INTERRUPTED: Final = 130
"""Ctrl-C."""
