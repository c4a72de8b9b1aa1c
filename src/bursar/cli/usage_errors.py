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
    program, verb = "bursar", ""
    if isinstance(error, click.UsageError) and error.ctx:
        # As a plugin the program is `kubectl bursar`.
        program = error.ctx.find_root().command_path
        verb = error.ctx.command_path.removeprefix(program).strip()
    text = " ".join(error.format_message().split()).rstrip(".")
    text = printable(text[:1].lower() + text[1:])
    text = text.replace(". Did you mean", "; did you mean")
    text = text.replace(". (Did you mean one of: ", "; did you mean one of ").replace("?)", "?")
    subject = f"{verb}: " if verb else ""
    see = " See" if text.endswith("?") else "; see"
    return f"{subject}{text}{see} {f'{program} {verb}'.rstrip()} --help"
