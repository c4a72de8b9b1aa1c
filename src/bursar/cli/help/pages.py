"""The stored pages: the help of each command, the manual page and the completion scripts.

click takes several times as long to import as Python takes to start, and a verb takes longer still
to import all that it needs. So `make pages` (tools/generate_pages.py) writes what click would print
into the folder `stored`, and a test compares it with what click prints now. This module imports
nothing but `os`.
"""

import os
from typing import Final

from bursar.cli.help.front_page import as_typed

MANUAL: Final = "bursar.1"
COMMANDS: Final = "commands.json"
COLUMNS: Final = 80
"""Width of the stored pages. click uses no more on a wider terminal."""
HELP: Final = ("-h", "--help")
SHELLS: Final = ("bash", "fish", "zsh")

_FOLDER: Final = os.path.join(os.path.dirname(__file__), "stored")  # noqa: PTH118, PTH120 - pathlib takes too long to import


def stored(name: str) -> str:
    """The text of a stored page. Raises `OSError` if there is none of this name."""
    with open(os.path.join(_FOLDER, name), encoding="utf-8") as file:  # noqa: PTH118, PTH123 - see above
        return file.read()


def help_name(path: tuple[str, ...]) -> str:
    """The file name of the help of a command, such as `describe.pod.txt`."""
    return f"{'.'.join(path)}.txt"


def script_name(shell: str) -> str:
    return f"completion.{shell}"


def stored_answer(arguments: list[str], program: str) -> str | None:
    """What to print for these arguments, if that is stored: a help page or a completion script.

    None: click has to answer, also because the terminal is too narrow for the stored page.
    """
    if arguments[:1] == ["completion"] and arguments[1:] in [[shell] for shell in SHELLS]:
        return stored(script_name(arguments[1]))
    *path, last = arguments
    if last not in HELP or not path or not all(map(_is_name, path)) or _columns() < COLUMNS:
        return None
    try:
        return as_typed(stored(help_name(tuple(path))), program)
    except OSError:
        return None


def _is_name(word: str) -> bool:
    return word.isascii() and word.replace("-", "").isalnum()


def _columns() -> int:
    """Width of the terminal, found as by `shutil.get_terminal_size`, which is slow to import."""
    told = os.environ.get("COLUMNS", "")
    if told.isdecimal() and int(told):
        return int(told)
    try:
        return os.get_terminal_size(1).columns or COLUMNS
    except OSError:
        return COLUMNS
