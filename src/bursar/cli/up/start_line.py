"""What `bursar up` does before there is a cluster to show, on one line of the terminal.

With thousands of pods that takes seconds. The line disappears when the first state is shown.
"""

import sys

import click


def say_start(text: str) -> None:
    """Replace the line. Without a terminal, nothing is written."""
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[Kbursar up: {text}", err=True, nl=False)


def clear_start() -> None:
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", err=True, nl=False)


def say_lasting(text: str) -> None:
    """A line of its own, which stays; terminal or not."""
    clear_start()
    click.echo(f"bursar up: {text}", err=True)
