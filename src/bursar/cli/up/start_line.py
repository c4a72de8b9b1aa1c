"""What `bursar up` does before there is a cluster to show, on one line of the terminal.

With thousands of pods that takes seconds. The line disappears when the first state is shown.
"""

import sys

import click


def show_progress_line(text: str) -> None:
    """Replace the line of progress. Without a terminal, nothing is written."""
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[Kbursar up: {text}", err=True, nl=False)


def clear_progress_line() -> None:
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", err=True, nl=False)


def print_line(text: str) -> None:
    """Print a line that stays, also without a terminal."""
    clear_progress_line()
    click.echo(f"bursar up: {text}", err=True)
