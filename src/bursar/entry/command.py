"""The `bursar` command: run one verb, and turn every ending into an exit code and one line."""

import os
import sys

import click

from bursar.cli.ending import BAD_INPUT, INTERRUPTED, BadInputError
from bursar.cli.root import bursar


def main() -> None:
    """Entry point of `.venv/bin/bursar`."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code (documented in docs/reference/cli.md)."""
    try:
        outcome = bursar.main(arguments, prog_name="bursar", standalone_mode=False)
        sys.stdout.flush()
    except BadInputError as error:
        click.echo(f"bursar: {error}", err=True)
        return BAD_INPUT
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("bursar: interrupted", err=True)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader went away (`bursar ... | head`): not our failure, but say nothing more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return outcome if isinstance(outcome, int) else 0
