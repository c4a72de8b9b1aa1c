"""`bursar man`: print the manual page."""

import click

from bursar.cli.errors.exit_codes import OK
from bursar.cli.help.pages import MANUAL, stored


@click.command(short_help="Print the manual page.")
def man() -> int:
    """Print the manual page of all commands, as man reads it.

    Installations with pip have it in share/man/man1, where man finds it if
    the environment's bin folder is in PATH.
    """
    click.echo(stored(MANUAL), nl=False)
    return OK
