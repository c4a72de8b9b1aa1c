"""`bursar up` as a user meets it: the embedded cluster, and a real one only when named."""

import json
import os
import pty
import select
import signal
import subprocess
import time

import pytest

from command_line import COMMAND, run_bursar


def ended_state(*arguments: str, stdin: bytes = b"", **environment: str) -> dict:
    ran = run_bursar("up", *arguments, "-o", "json", stdin=stdin, **environment)
    assert (ran.code, ran.err) == (0, "")
    return json.loads(ran.out)


def test_the_example_cluster_comes_to_life_and_stops_by_itself():
    state = ended_state("--for", "4s")

    assert state["cluster"] == "embedded cluster"
    assert [node["name"] for node in state["nodes"]] == ["gpu", "north", "south"]
    assert all(node["ready"] for node in state["nodes"])
    assert state["pods"]["running"] >= 10
    reasons = {pod["name"]: pod["reason"] for pod in state["waiting"]}
    assert reasons["held-back"] == "waiting for scheduling gates: [example.com/approval]"
    assert "2 Insufficient cpu" in reasons["yearly-report"]


NODE = """
apiVersion: v1
kind: Node
metadata: {name: only}
status: {capacity: {cpu: "1", memory: 1Gi, pods: "10"}}
---
apiVersion: v1
kind: Pod
metadata: {name: fills-it, namespace: somewhere}
spec:
  containers:
  - {name: c, image: i, resources: {requests: {cpu: 950m}}}
"""


def test_it_starts_with_what_the_files_hold():
    state = ended_state("-f", "-", "--for", "3s", stdin=NODE.encode())

    assert [node["name"] for node in state["nodes"]] == ["only"]
    assert state["pods"]["running"] == 1
    assert state["full"] == [{"node": "only", "resource": "cpu"}]


def test_no_cluster_is_touched_that_was_not_named(tmp_path):
    """KUBECONFIG in the environment must not be enough."""
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text("this would be an error if it were read")

    state = ended_state("--for", "200ms", KUBECONFIG=str(kubeconfig), HOME=str(tmp_path))

    assert state["cluster"] == "embedded cluster"


def test_without_a_terminal_each_change_is_one_line():
    ran = run_bursar("up", "--for", "3s")

    lines = ran.out.splitlines()
    assert ran.code == 0
    assert all(line.startswith("bursar up: embedded cluster: ") for line in lines)
    assert any("running" in line for line in lines)


def test_on_a_terminal_it_is_drawn_and_ctrl_c_stops_it_cleanly():
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(COMMAND, ["bursar", "up"])  # noqa: S606 - a terminal of its own needs a fork
    drawn = _read_until(terminal, b"north")
    os.write(terminal, b"\x03")
    rest = _read_until(terminal, b"bursar up: embedded cluster: ")
    _, status = os.waitpid(pid, 0)
    os.close(terminal)

    assert b"CPU" in drawn
    assert b"embedded cluster" in rest
    assert os.waitstatus_to_exitcode(status) == 0


def _read_until(terminal: int, wanted: bytes) -> bytes:
    read = b""
    deadline = time.monotonic() + 30
    while wanted not in read and time.monotonic() < deadline:
        ready, _, _ = select.select([terminal], [], [], 0.2)
        if ready:
            try:
                read += os.read(terminal, 65536)
            except OSError:
                break
    return read


def test_it_ends_when_asked_to_terminate():
    with subprocess.Popen(
        [str(COMMAND), "up", "-o", "json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        time.sleep(1.5)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=20)

    assert process.returncode == 0, err
    assert json.loads(out)["cluster"] == "embedded cluster"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kubeconfig", "/no/such/config"], "/no/such/config"),
        (["--for", "soon"], "a duration such as 30s"),
        (["--kubeconfig", "/no/such/config", "-f", "x"], "-f is for the embedded cluster"),
        (["-f", "/no/such/file"], "/no/such/file: no such file or directory"),
    ],
)
def test_what_cannot_be_done_is_said_on_stderr_with_exit_code_two(arguments, message):
    ran = run_bursar("up", *arguments)

    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


def test_a_real_cluster_is_shown_when_it_is_named(control_plane):
    state = ended_state("--kubeconfig", str(control_plane.kubeconfig), "--for", "1s")

    assert state["cluster"] == "real cluster, read only"
    assert {"node-0", "node-1", "node-2"} <= {node["name"] for node in state["nodes"]}
