"""Errors in a command line, in the style of all other errors: what, why, and the next step."""

import click

from bursar.cli.output.formats import printable


def usage_text(error: click.ClickException) -> str:
    """The error as one line. Empty if the error shows itself, as a group without a command does.

    >>> usage_text(click.UsageError("Missing option '-f'."))
    "missing option '-f'; see bursar --help"
    """
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return ""
    path = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "bursar"
    program, _, verb = path.partition(" ")
    text = " ".join(error.format_message().split()).rstrip(".")
    text = printable(text[:1].lower() + text[1:])
    text = text.replace(". Did you mean", "; did you mean")
    subject = f"{verb}: " if verb else ""
    see = " See" if text.endswith("?") else "; see"
    return f"{subject}{text}{see} {f'{program} {verb}'.rstrip()} --help"
