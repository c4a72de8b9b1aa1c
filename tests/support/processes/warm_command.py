"""`bursar` in a fork of a process that has imported it already.

Importing it takes half a second of computing each time, which a test of what a verb prints need
not pay. The fork is a process of its own in all other respects: it has its own arguments,
environment, folder and files, and an exit code.

It runs as a program: a process that has imported `bursar` waits for requests at a socket, and
forks for each of them.
"""

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path

SECONDS_MAX = 180
WARM = (
    *("click", "yaml", "msgspec", "rich.console", "rich.table"),
    *("bursar.cli.root", "bursar.entry.processes", "bursar.cli.reports.describe"),
)
"""What most verbs need. None of these starts a thread, which would not survive a fork."""
READ_AT_START = ("PYTHON", "LANG", "LC_")
"""Variables that Python reads only when it starts begin with these words."""


class WarmCommand:
    """A process that has imported `bursar`. It ends with the process that started it."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )

    def run(
        self, arguments: Sequence[str], stdin: bytes, environment: Mapping[str, str]
    ) -> tuple[int, bytes, bytes]:
        """The exit code, standard output and standard error of one command line."""
        request = [list(arguments), dict(environment), str(Path.cwd())]
        codes, codes_end = os.pipe()
        files = [
            _file(json.dumps(request).encode()),
            *(_file(stdin), _file(b""), _file(b"")),
            codes_end,
        ]
        try:
            socket.send_fds(self._socket, [b"run"], files)
            os.close(files.pop())
            return _exit_code(codes), _content(files[2]), _content(files[3])
        finally:
            for file in (*files, codes):
                os.close(file)

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


def _file(content: bytes) -> int:
    """A file without a name."""
    file = os.memfd_create("bursar")
    os.write(file, content)
    os.lseek(file, 0, os.SEEK_SET)
    return file


def _content(file: int) -> bytes:
    return os.pread(file, os.fstat(file).st_size, 0)


def _exit_code(codes: int) -> int:
    """The second number that comes: the first one is the id of the process."""
    text = b""
    deadline = time.monotonic() + SECONDS_MAX
    with selectors.DefaultSelector() as selector:
        selector.register(codes, selectors.EVENT_READ)
        while True:
            if not selector.select(deadline - time.monotonic()):
                os.kill(int(text.split()[0]), signal.SIGKILL)
                raise TimeoutError(f"bursar ran for more than {SECONDS_MAX} s")
            read = os.read(codes, 64)
            if not read:
                return int(text.split()[1])
            text += read


# ------------------------------------------------------------------ the process that forks


def serve(requests: socket.socket) -> bool:
    """Fork for each request. True in a fork, which is then to run the command line."""
    for name in WARM:
        import_module(name)
    running: set[int] = set()
    while True:
        _, files, _, _ = socket.recv_fds(requests, 16, 8)
        if not files:
            return False
        process = os.fork()
        if not process:
            requests.close()
            return _is_command(*files)
        running.add(process)
        for file in files:
            os.close(file)
        running -= {each for each in running if os.waitpid(each, os.WNOHANG)[0]}


def _is_command(request: int, stdin: int, stdout: int, stderr: int, codes: int) -> bool:
    """Fork again, for the command. This process waits for it, and tells its exit code."""
    process = os.fork()
    if process:
        os.write(codes, f"{process} ".encode())
        os.write(codes, str(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])).encode())
        os._exit(0)
    arguments, environment, folder = json.loads(_content(request))
    sys.argv[1:] = arguments
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(folder)
    for number, file in enumerate((stdin, stdout, stderr)):
        os.dup2(file, number)
    os.closerange(3, max(request, stdin, stdout, stderr, codes) + 1)
    return True


if __name__ == "__main__" and serve(socket.socket(fileno=int(sys.argv[1]))):
    from bursar.entry.command import main

    main()
