"""`bursar up` in a pseudo-terminal, and on clusters that cannot be reached."""

import fcntl
import os
import pty
import re
import select
import signal
import socket
import struct
import termios
from pathlib import Path
from typing import Self

import pytest

from bursar.entry.up.embedded_cluster import OBJECTS_PER_REPORT
from support.processes.command_line import COMMAND, run_bursar
from support.processes.embedded_up import FULL_NODE
from support.until import PATIENCE_SECONDS

pytestmark = pytest.mark.slow

A_POD = """
---
apiVersion: v1
kind: Pod
metadata: {{name: p{0}, namespace: somewhere}}
spec: {{containers: [{{name: c, image: i}}]}}
"""


class Terminal:
    """A pseudo-terminal in which `bursar up` runs."""

    def __init__(self, *arguments: str, stdin: Path | None = None, **environment: str) -> None:
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            if stdin is not None:
                os.dup2(os.open(stdin, os.O_RDONLY), 0)
            kept = {name: text for name, text in os.environ.items() if name != "NO_COLOR"}
            names = {**kept, "TERM": "xterm-256color", **environment}
            os.execve(COMMAND, ["bursar", "up", *arguments], names)  # noqa: S606 - needs a fork
        size = struct.pack("HHHH", 24, 80, 0, 0)
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, size)
        self.read = b""

    def until(self, wanted: bytes) -> None:
        while wanted not in self.read:
            ready, _, _ = select.select([self.terminal], [], [], PATIENCE_SECONDS)
            assert ready, f"{wanted!r} was never drawn: {self.read!r}"
            self.read += os.read(self.terminal, 65536)

    def press(self, keys: bytes) -> None:
        os.write(self.terminal, keys)

    def last_frame(self) -> str:
        """Wait for the end, and return what is left in the terminal."""
        try:
            while chunk := os.read(self.terminal, 65536):
                self.read += chunk
        except OSError:  # the other side is closed
            pass
        return self.read.rpartition(b"\x1b[?1049l")[2].decode()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        if failure[0] is not None:
            os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        os.close(self.terminal)
        self.code = os.waitstatus_to_exitcode(status)


@pytest.mark.parametrize("keys", [b"q", b"\x03"])
def test_on_a_terminal_it_is_drawn_and_the_last_frame_stays(keys):
    with Terminal() as terminal:
        terminal.until(b"north")
        terminal.until(b"WAITING")
        terminal.press(keys)
        frame = terminal.last_frame()

    assert terminal.code == 0
    assert "bursar up: embedded cluster   Pods: " in frame
    assert "\nWAITING " in frame.replace("\r", "")
    assert "north" in frame


def test_on_a_terminal_it_ends_with_the_signal_and_with_the_time():
    with Terminal() as terminal:
        terminal.until(b"WAITING")
        os.kill(terminal.pid, signal.SIGTERM)
        frame = terminal.last_frame()
    assert terminal.code == 0
    assert "WAITING" in frame

    with Terminal("--for", "1s") as timed:
        frame = timed.last_frame()
    assert timed.code == 0


def test_keys_work_although_manifests_come_through_standard_input(tmp_path):
    manifests = tmp_path / "manifests.yaml"
    manifests.write_text(FULL_NODE)
    with Terminal("-f", "-", stdin=manifests) as terminal:
        terminal.until(b"only")
        terminal.press(b"q")
        frame = terminal.last_frame()

    assert terminal.code == 0
    assert "only " in frame


COLOUR = re.compile(rb"\x1b\[[0-9;]*(?:3[0-7]|38;5|38;2|9[0-7])[0-9;]*m")


@pytest.mark.parametrize("is_coloured", [True, False])
def test_colours_go_with_no_color(is_coloured):
    with Terminal(**({} if is_coloured else {"NO_COLOR": "1"})) as terminal:
        terminal.until(b"100%")
        terminal.press(b"q")
        terminal.last_frame()

    assert bool(COLOUR.search(terminal.read)) is is_coloured


def test_the_steps_before_the_first_frame_are_on_a_line_that_disappears(tmp_path):
    pods = tmp_path / "pods.yaml"
    pods.write_text(FULL_NODE + "".join(map(A_POD.format, range(OBJECTS_PER_REPORT))))
    with Terminal("-f", str(pods)) as terminal:
        terminal.until(b"\x1b[?1049h")
        before = terminal.read.decode()
        terminal.until(b"NODES")
        terminal.press(b"q")
        terminal.last_frame()

    lines = before.partition("\x1b[?1049h")[0].split("\r\x1b[K")
    assert lines == [
        "",
        "bursar up: starting",
        "bursar up: reading the manifests",
        "bursar up: loaded 250 of 252 objects",
        "bursar up: waiting for the controller",
        "",
    ]


def test_a_mistake_on_a_terminal_is_one_line():
    with Terminal("-f", "/no/such/file") as terminal:
        said = terminal.last_frame()

    assert terminal.code == 2
    assert b"\x1b[?1049h" not in terminal.read
    assert "/no/such/file: no such file or directory" in said


KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: away
clusters: [{{name: c, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: u, user: {{}}}}]
contexts: [{{name: away, context: {{cluster: c, user: u}}}}]
"""


def test_an_api_server_that_cannot_be_reached_is_named(tmp_path):
    """Nothing listens on the port of a socket that is bound but not listening."""
    kubeconfig = tmp_path / "config"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        kubeconfig.write_text(KUBECONFIG.format(port=port))
        ran = run_bursar("up", "--kubeconfig", str(kubeconfig))

    assert (ran.code, ran.out) == (2, "")
    assert f"http://127.0.0.1:{port} (context away): " in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("arguments", [[], ["--for", "100ms"]])
def test_an_api_server_that_does_not_answer_is_not_waited_for(tmp_path, arguments):
    kubeconfig = tmp_path / "config"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        kubeconfig.write_text(KUBECONFIG.format(port=silent.getsockname()[1]))
        ran = run_bursar("up", "--kubeconfig", str(kubeconfig), *arguments)

    assert (ran.code, ran.out) == (2, "")
    problem = "was not read before the end" if arguments else "no answer within 2 s"
    assert problem in ran.err
