"""`bursar up` as a user meets it: the embedded cluster, and a real one only when named."""

import json
import os
import pty
import select
import signal
import stat
import subprocess
import time
from pathlib import Path

import pytest

from support.command_line import COMMAND, run_bursar

pytestmark = pytest.mark.slow


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
    gates = "[example.com/approval ApplicationAwareQuotaGate]"
    assert reasons["held-back"] == f"waiting for scheduling gates: {gates}"
    assert "2 Insufficient cpu" in reasons["yearly-report"]


def test_a_quota_holds_pods_back_and_says_why():
    state = ended_state("--for", "4s")

    (quota,) = state["quotas"]
    assert (quota["kind"], quota["namespace"], quota["name"]) == (
        "ApplicationAwareResourceQuota",
        "research",
        "gpus",
    )
    assert quota["hard"] == {"requests.nvidia.com/gpu": "2", "pods": "10"}
    assert quota["used"] == {"requests.nvidia.com/gpu": "2", "pods": "2"}
    waiting = [pod for pod in state["waiting"] if pod["name"].startswith("training-")]
    (reason,) = [pod["reason"] for pod in waiting]
    assert reason == (
        "exceeded quota: gpus, requested: requests.nvidia.com/gpu=1, used: "
        "requests.nvidia.com/gpu=2, limited: requests.nvidia.com/gpu=2; missing: "
        "requests.nvidia.com/gpu=1"
    )


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


def test_a_catalogue_beside_manifests_is_left_out_and_said_so():
    examples = str(Path(__file__).parents[2] / "examples" / "peerpods")
    ran = run_bursar("up", "-f", examples, "--for", "2s", "-o", "json")

    assert ran.code == 0
    assert ran.err == ("bursar up: left out: InstanceCatalogue, which is no object of a cluster\n")
    assert [pod["name"] for pod in json.loads(ran.out)["waiting"]] == ["shop"]


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


def _wait_until_listening(pid: int, number: int) -> None:
    """Until the process has its own answer to a signal, which would simply end it before."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        status = Path(f"/proc/{pid}/status").read_text()
        if int(status.split("SigCgt:")[1].split()[0], 16) >> (number - 1) & 1:
            return
        time.sleep(0.05)
    raise AssertionError("it never listened")


def test_it_ends_when_asked_to_terminate():
    with subprocess.Popen(
        [str(COMMAND), "up", "-o", "json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        _wait_until_listening(process.pid, signal.SIGTERM)
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
        (["--context", "c", "--state", "x"], "--state is for the embedded cluster"),
        (["--state", "/no/such/folder/x"], "/no/such/folder/x: the folder does not exist"),
        (["--state", "/"], "/: not a file"),
    ],
)
def test_what_cannot_be_done_is_said_on_stderr_with_exit_code_two(arguments, message):
    ran = run_bursar("up", *arguments)

    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


# ------------------------------------------------------------------ a state that is kept

WORK = """
apiVersion: v1
kind: Node
metadata: {name: only}
status: {capacity: {cpu: "8", memory: 8Gi, pods: "20"}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: i}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: work}
spec:
  parallelism: 2
  completions: 50
  template:
    metadata: {annotations: {bursar.io/finishes-after: 1s}}
    spec: {restartPolicy: Never, containers: [{name: c, image: i}]}
"""


def saved_objects(path):
    lines = path.read_text().splitlines()[1:]
    return [json.loads(line)["object"] for line in lines]


def pods_by_name(objects):
    return {each["metadata"]["name"]: each for each in objects if each["kind"] == "Pod"}


def test_a_cluster_goes_on_where_it_was_left(tmp_path):
    state = tmp_path / "state"
    first = ended_state("-f", "-", "--state", str(state), "--for", "1500ms", stdin=WORK.encode())
    before = saved_objects(state)
    second = ended_state("--state", str(state), "--for", "4s")
    after = saved_objects(state)

    assert stat.S_IMODE(state.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
    assert [node["name"] for node in first["nodes"]] == ["only"]
    assert [node["name"] for node in second["nodes"]] == ["only"]
    old, new = pods_by_name(before), pods_by_name(after)
    assert len(old) == 5
    assert old.keys() <= new.keys()
    ended = {name: pod["status"]["phase"] for name, pod in new.items() if name in old}
    assert sorted(ended.values()) == ["Running"] * 3 + ["Succeeded"] * 2
    assert second["pods"]["succeeded"] >= 2


def test_what_comes_later_is_not_taken_for_what_was_there(tmp_path):
    """The same seed must not give the same uids and names again."""
    state = tmp_path / "state"
    ended_state("-f", "-", "--state", str(state), "--for", "1500ms", stdin=WORK.encode())
    before = {each["metadata"]["uid"] for each in saved_objects(state)}
    ended_state("--state", str(state), "--for", "4s")
    uids = [each["metadata"]["uid"] for each in saved_objects(state)]

    assert len(uids) > len(before)
    assert len(uids) == len(set(uids))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_cluster_that_is_interrupted_is_kept(tmp_path, number):
    state = tmp_path / "state"
    with subprocess.Popen(
        [str(COMMAND), "up", "--state", str(state)], stdout=subprocess.PIPE, text=True
    ) as process:
        process.stdout.readline()
        process.send_signal(number)
        process.communicate(timeout=20)

    assert process.returncode == 0
    assert len(pods_by_name(saved_objects(state))) >= 2


def test_a_cluster_is_kept_even_if_nobody_reads_on(tmp_path):
    state = tmp_path / "state"
    command = f"{COMMAND} up --state {state} --for 4s | head -1"
    subprocess.run(["bash", "-c", command], check=True, timeout=30, capture_output=True)

    assert saved_objects(state)


def test_manifests_are_not_mixed_into_a_kept_cluster(tmp_path):
    state = tmp_path / "state"
    ended_state("-f", "-", "--state", str(state), "--for", "100ms", stdin=NODE.encode())
    before = state.read_bytes()
    ran = run_bursar("up", "-f", "-", "--state", str(state), stdin=NODE.encode())

    assert (ran.code, ran.out) == (2, "")
    assert f"-f is for a new cluster, and {state} already holds one" in ran.err
    assert state.read_bytes() == before


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda _: b"", "not a saved cluster"),
        (lambda _: b"\xff\xfe\n", "not a saved cluster"),
        (lambda whole: whole[: len(whole) // 2], "not a saved object"),
        (lambda whole: whole[: whole[:-1].rindex(b"\n") + 1], "damaged"),
        (lambda whole: whole.replace(b'"only"', b'"onyl"'), "damaged"),
        (lambda whole: whole.replace(b'"version":1', b'"version":9'), "only format 1 is known"),
    ],
)
def test_a_damaged_or_foreign_file_is_refused_and_left_alone(tmp_path, damage, problem):
    state = tmp_path / "state"
    ended_state("-f", "-", "--state", str(state), "--for", "100ms", stdin=NODE.encode())
    damaged = damage(state.read_bytes())
    state.write_bytes(damaged)
    ran = run_bursar("up", "--state", str(state), "--for", "100ms")

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"bursar: {state}")
    assert ran.err.count("\n") == 1
    assert problem in ran.err
    assert state.read_bytes() == damaged


def test_a_real_cluster_is_shown_when_it_is_named(control_plane):
    state = ended_state("--kubeconfig", str(control_plane.kubeconfig), "--for", "1s")

    assert state["cluster"] == "real cluster, read only"
    assert {"node-0", "node-1", "node-2"} <= {node["name"] for node in state["nodes"]}
