"""Errors in a command line, in the style of all other errors: what, why, and the next step."""

import re
from typing import Final

import click

from bursar.cli.output.formats import printable

_NO_CHOICE: Final = re.compile("'(.*)' is not one of ")
"""How click begins the message for a value that is none of the choices."""


def usage_text(error: click.ClickException) -> str:
    """The error as one line. Empty if the error shows itself, as a group without a command does.

    >>> usage_text(click.UsageError("Missing option '-f'."))
    "missing option '-f'; see bursar --help"
    """
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return ""
    program, verb = "bursar", ""
    if isinstance(error, click.UsageError) and error.ctx:
        # As a plugin of kubectl, the program is `kubectl bursar`.
        program = error.ctx.find_root().command_path
        verb = error.ctx.command_path.removeprefix(program).strip()
    text = " ".join(error.format_message().split()).rstrip(".")
    text = printable(text[:1].lower() + text[1:])
    text = text.replace(". Did you mean", "; did you mean")
    text = text.replace(". (Did you mean one of: ", "; did you mean one of ").replace("?)", "?")
    text = text.replace("is not a valid integer range", "is not a whole number")
    text = text.replace("is not a valid integer", "is not a whole number")
    near = _likely_choice(error)
    if near:
        text = f"{text}; did you mean {near!r}?"
    subject = f"{verb}: " if verb else ""
    see = " See" if text.endswith("?") else "; see"
    return f"{subject}{text}{see} {f'{program} {verb}'.rstrip()} --help"


def _likely_choice(error: click.ClickException) -> str:
    """The choice that was probably meant; empty if there is none."""
    param = error.param if isinstance(error, click.BadParameter) else None
    given = _NO_CHOICE.match(error.message)
    if param is None or given is None or not isinstance(param.type, click.Choice):
        return ""
    from difflib import get_close_matches  # noqa: PLC0415 - only a mistake needs it

    return next(iter(get_close_matches(given[1].lower(), map(str, param.type.choices), n=1)), "")
