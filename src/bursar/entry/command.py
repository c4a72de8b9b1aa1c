"""The `bursar` command: run one verb, and turn every ending into an exit code and one line."""

import os
import sys
from typing import Final

from bursar.cli.front_page import front_page

WANTS_FRONT_PAGE: Final[tuple[list[str], ...]] = ([], ["-h"], ["--help"])


def main() -> None:
    """Entry point of `.venv/bin/bursar`."""
    arguments = sys.argv[1:]
    completing = "_BURSAR_COMPLETE" in os.environ
    if arguments in WANTS_FRONT_PAGE and not completing:
        # Importing the rest takes three times as long as starting Python.
        sys.stdout.write(front_page())
        return
    # gRPC would write on standard error what clients send; it looks here when it is loaded.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    sys.exit(run(arguments))


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code (documented in docs/reference/cli.md)."""
    import click  # noqa: PLC0415 - see main

    from bursar.cli.ending import BAD_INPUT, INTERRUPTED, BadInputError  # noqa: PLC0415
    from bursar.cli.root import bursar  # noqa: PLC0415

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
