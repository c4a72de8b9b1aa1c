"""The `bursar` command: run one verb, and turn every ending into an exit code and one line."""

import io
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TextIO

from bursar.cli.front_page import front_page

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

WANTS_FRONT_PAGE: Final[tuple[list[str], ...]] = ([], ["-h"], ["--help"])
NOT_WRITTEN: Final = 3
"""What there is to say could not be written."""
CLOSED: Final = -1


def main() -> None:
    """Entry point of `.venv/bin/bursar`."""
    arguments = sys.argv[1:]
    completing = "_BURSAR_COMPLETE" in os.environ
    sys.stdout = _guarded(sys.stdout)
    if sys.stderr is None:
        sys.stderr = io.TextIOWrapper(io.FileIO(os.devnull, "w"))
    if arguments in WANTS_FRONT_PAGE and not completing:
        # Importing the rest takes three times as long as starting Python.
        code = _front_page_shown()
        if code:
            sys.exit(code)
        return
    # gRPC would write on standard error what clients send; it looks here when it is loaded.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    sys.exit(run(arguments))


def _front_page_shown() -> int:
    try:
        sys.stdout.write(front_page())
        sys.stdout.flush()
    except OutputError as error:
        return _told(error)
    except ReaderGoneError:
        pass
    return 0


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code (documented in docs/reference/cli.md)."""
    import click  # noqa: PLC0415 - see main

    from bursar.cli.exit_codes import BAD_INPUT, INTERRUPTED, BadInputError  # noqa: PLC0415
    from bursar.cli.root import bursar  # noqa: PLC0415
    from bursar.entry.processes import ComposedProcesses  # noqa: PLC0415

    try:
        outcome = bursar.main(
            arguments, prog_name="bursar", standalone_mode=False, obj=ComposedProcesses()
        )
        sys.stdout.flush()
    except BadInputError as error:
        _say(str(error))
        return BAD_INPUT
    except click.ClickException as error:
        with suppress(OSError):
            error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        _say("interrupted")
        return INTERRUPTED
    except OutputError as error:
        return _told(error)
    except ReaderGoneError:
        return 0
    return outcome if isinstance(outcome, int) else 0


def _say(line: str) -> None:
    """On standard error; if that is refused as well, the exit code has to be enough."""
    import click  # noqa: PLC0415 - see main

    with suppress(OSError):
        click.echo(f"bursar: {line}", err=True)


# ------------------------------------------------------------------ output that is refused


class OutputError(Exception):
    """Standard output takes no more. No verb can do anything about it."""


class ReaderGoneError(Exception):
    """The reader went away (`bursar ... | head`): not our failure, but say nothing more.

    Not a `BrokenPipeError`, of which click would make an exit code of its own.
    """


def _told(error: OutputError) -> int:
    _say(f"cannot write the output: {error}")
    return NOT_WRITTEN


def _guarded(stream: TextIO | None) -> TextIO:
    """The same stream; but an error in writing to it cannot be taken for any other."""
    if not isinstance(stream, io.TextIOWrapper):
        # The descriptor may have been closed, and since be in use for another file.
        return io.TextIOWrapper(io.BufferedWriter(_Guard(CLOSED)), errors="replace")
    return io.TextIOWrapper(
        io.BufferedWriter(_Guard(stream.fileno())),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering or stream.write_through,
    )


class _Guard(io.RawIOBase):
    """Complains once, and then swallows the rest: what is left in buffers is lost as well."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._is_lost = False

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._descriptor != CLOSED and os.isatty(self._descriptor)

    def fileno(self) -> int:
        return self._descriptor

    def write(self, data: "ReadableBuffer", /) -> int:
        if self._is_lost:
            return memoryview(data).nbytes
        try:
            return os.write(self._descriptor, data)
        except BrokenPipeError:
            self._is_lost = True
            raise ReaderGoneError from None
        except OSError as error:
            self._is_lost = True
            reason = error.strerror or "unknown reason"
            raise OutputError(reason[:1].lower() + reason[1:]) from None
