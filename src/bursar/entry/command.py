"""The `bursar` command: run one verb, and turn every ending into an exit code and one line."""

import io
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TextIO

from bursar import __version__
from bursar.cli.help.front_page import PROGRAM, as_typed, front_page
from bursar.cli.help.pages import stored_answer

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

WANTS_FRONT_PAGE: Final[tuple[list[str], ...]] = ([], ["-h"], ["--help"])
WANTS_VERSION: Final[tuple[list[str], ...]] = (["-V"], ["--version"])
PLUGIN: Final = "kubectl-bursar"
"""The name under which kubectl runs this command, as `kubectl bursar`."""
PROCESSES: Final = ("agent", "controller", "extender", "operator", "up", "webhook")
"""Verbs that run for long, for which it does not matter how soon they start."""
NOT_WRITTEN: Final = 3
"""Exit code if standard output cannot be written."""
CLOSED: Final = -1


def main() -> None:
    """Entry point of `.venv/bin/bursar`, `python -m bursar` and the plugin of kubectl."""
    arguments = sys.argv[1:]
    program = "kubectl bursar" if sys.argv[0].endswith(PLUGIN) else PROGRAM
    _guard_streams()
    answer = _answer_without_click(arguments, program)
    if answer is not None:
        # Importing the rest takes several times as long as starting Python.
        code = _shown(answer)
        if code:
            sys.exit(code)
        return
    # gRPC would write on standard error what clients send; it looks here when it is loaded.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from bursar.cli.start.late_modules import defer_modules  # noqa: PLC0415 - see above

    defer_modules()
    if arguments[0] not in PROCESSES:
        from bursar.cli.start.quick_start import start_quickly  # noqa: PLC0415 - see above

        start_quickly()
    sys.exit(run(arguments, program))


def complete_for_kubectl() -> None:
    """Entry point of `kubectl_complete-bursar`, which kubectl runs to complete a command line."""
    from bursar.cli.help.shells import kubectl_answer  # noqa: PLC0415 - other commands need no JSON

    _guard_streams()
    sys.exit(_shown(kubectl_answer(sys.argv[1:])))


def _guard_streams() -> None:
    sys.stdout = _guarded(sys.stdout)
    if sys.stderr is None:
        sys.stderr = io.TextIOWrapper(io.FileIO(os.devnull, "w"))


def _answer_without_click(arguments: list[str], program: str) -> str | None:
    """Help, version and completions. None: click has to read the arguments."""
    if "_BURSAR_COMPLETE" in os.environ:
        from bursar.cli.help.shells import shell_answer  # noqa: PLC0415 - see above

        return shell_answer(os.environ)
    if arguments in WANTS_FRONT_PAGE:
        return as_typed(front_page(), program)
    if arguments in WANTS_VERSION:
        return f"{PROGRAM} {__version__}\n"
    return stored_answer(arguments, program)


def _shown(text: str) -> int:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OutputError as error:
        return _told(error)
    except ReaderGoneError:
        pass
    return 0


def run(arguments: list[str], program: str = PROGRAM) -> int:
    """Run one command line and return its exit code (documented in docs/reference/cli.md)."""
    import click  # noqa: PLC0415 - see main

    from bursar.cli.errors.exit_codes import BAD_INPUT, INTERRUPTED, BadInputError  # noqa: PLC0415
    from bursar.cli.root import bursar  # noqa: PLC0415
    from bursar.entry.processes import ComposedProcesses  # noqa: PLC0415

    try:
        outcome = bursar.main(
            arguments, prog_name=program, standalone_mode=False, obj=ComposedProcesses()
        )
        sys.stdout.flush()
    except BadInputError as error:
        from bursar.cli.output.formats import printable  # noqa: PLC0415 - only for errors

        _say(printable(str(error)))
        return BAD_INPUT
    except click.ClickException as error:
        from bursar.cli.errors.usage import usage_text  # noqa: PLC0415 - only for errors

        text = usage_text(error)
        if text:
            _say(text)
        else:
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
    """Print a line on standard error. If that fails too, only the exit code tells the problem."""
    import click  # noqa: PLC0415 - see main

    with suppress(OSError):
        click.echo(f"bursar: {line}", err=True)


# ------------------------------------------------------------------ output that is refused


class OutputError(Exception):
    """Standard output cannot be written. No verb can do anything about it."""


class ReaderGoneError(Exception):
    """The reader of the output has gone (`bursar ... | head`): end without an error message.

    Not a `BrokenPipeError`, of which click would make an exit code of its own.
    """


def _told(error: OutputError) -> int:
    _say(f"cannot write the output: {error}")
    return NOT_WRITTEN


def _guarded(stream: TextIO | None) -> TextIO:
    """The stream with errors of its own: a failed write cannot be taken for another OSError."""
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
    """Raises an error once and then drops all output, so that flushing a buffer raises no other."""

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
