"""`bursar up` as a user meets it: the embedded cluster, and a real one only when named."""

import io
import json
import os
import pty
import select
import signal
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bursar.app.quota.read_model import QuotaLine
from bursar.app.reports.overview import Overview
from bursar.cli.processes.overview_view import drawn
from bursar.core.quota.quota import QuotaKey, QuotaKind
from support.processes.command_line import COMMAND, run_bursar
from support.until import PATIENCE_SECONDS, until_sync

pytestmark = pytest.mark.slow


def ended_state(*arguments: str, stdin: bytes = b"", **environment: str) -> dict:
    ran = run_bursar("up", *arguments, "-o", "json", stdin=stdin, **environment)
    assert (ran.code, ran.err) == (0, "")
    return json.loads(ran.out)


def grown_state(is_grown: Callable[[dict], bool], *arguments: str, **others: Any) -> dict:
    """The state in which the cluster ends, after as long as this machine needs to grow it."""
    for seconds in (2, 6, 20, 60):
        state = ended_state(*arguments, "--for", f"{seconds}s", **others)
        if is_grown(state):
            break
    return state


@pytest.fixture(scope="module")
def example() -> dict:
    """The example cluster, when all has happened that can."""

    def is_grown(state: dict) -> bool:
        names = {pod["name"] for pod in state["waiting"]}
        return state["pods"]["running"] >= 10 and {"held-back", "yearly-report"} <= names

    return grown_state(is_grown)


def test_the_example_cluster_comes_to_life_and_stops_by_itself(example):
    state = example

    assert state["cluster"] == "embedded cluster"
    assert [node["name"] for node in state["nodes"]] == ["gpu", "north", "south"]
    assert all(node["ready"] for node in state["nodes"])
    assert state["pods"]["running"] >= 10
    reasons = {pod["name"]: pod["reason"] for pod in state["waiting"]}
    assert reasons["held-back"] == "other scheduling gates come first: example.com/approval"
    assert "2 Insufficient cpu" in reasons["yearly-report"]


def test_a_quota_holds_pods_back_and_says_why(example):
    state = example

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
    ran = run_bursar("up", "-f", examples, "--for", "1s", "-o", "json")

    assert ran.code == 0
    assert ran.err == ("bursar up: left out: InstanceCatalogue, which is no object of a cluster\n")
    assert [pod["name"] for pod in json.loads(ran.out)["waiting"]] == ["shop"]


NOTEBOOKS = """
apiVersion: v1
kind: Namespace
metadata: {name: lab, labels: {application-aware-quota/enable-gating: ""}}
---
apiVersion: aaq.kubevirt.io/v1alpha1
kind: ApplicationAwareResourceQuota
metadata: {name: seats, namespace: lab}
spec: {hard: {instances/notebook: "1"}}
---
apiVersion: bursar.io/v1alpha1
kind: CountingPolicy
metadata: {name: notebooks}
spec: {match: "true", charges: {instances/notebook: "1"}}
---
apiVersion: v1
kind: Pod
metadata: {name: first, namespace: lab}
spec: {containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: second, namespace: lab}
spec: {containers: [{name: c, image: i}]}
"""


def test_policies_in_the_files_count_as_they_do_in_a_cluster():
    state = grown_state(
        lambda state: (state["pods"]["gated"], state["pods"]["waiting"]) == (1, 1),
        *("-f", "-", "--counting-policies"),
        stdin=NOTEBOOKS.encode(),
    )

    [quota] = state["quotas"]
    assert quota["used"] == {"instances/notebook": "1"}
    [gated] = [pod["reason"] for pod in state["waiting"] if pod["state"] == "gated"]
    assert gated.endswith("counted as policy: notebooks: instances/notebook 1")
    assert quota["notCounted"] == []


def test_a_quota_says_which_of_its_names_no_counter_charges():
    """Without the option the policy counts no pod."""
    state = grown_state(lambda state: state["quotas"], "-f", "-", stdin=NOTEBOOKS.encode())

    [quota] = state["quotas"]
    assert [each["resource"] for each in quota["notCounted"]] == ["instances/notebook"]


def test_the_view_for_terminals_tells_it_as_well():
    line = QuotaLine(
        key=QuotaKey(QuotaKind.NAMESPACED, "lab", "seats"),
        hard={},
        used={},
        summary="instances/notebook: 0/1",
        uncounted=("instances/notebook",),
    )
    console = Console(file=io.StringIO(), width=120)
    console.print(drawn(Overview(nodes=(), counts={}, waiting=(), quotas=(line,)), "lab"))

    shown = console.file.getvalue()
    assert "lab/seats   instances/notebook: 0/1; not counted: instances/notebook" in shown


def test_it_starts_with_what_the_files_hold():
    state = grown_state(lambda state: state["pods"]["running"], "-f", "-", stdin=NODE.encode())

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
    with subprocess.Popen([str(COMMAND), "up"], stdout=subprocess.PIPE, text=True) as process:
        lines = [next(line for line in process.stdout if "running" in line)]
        process.send_signal(signal.SIGTERM)
        lines += process.stdout.readlines()

    assert process.returncode == 0
    assert len(lines) >= 2
    assert all(line.startswith("bursar up: embedded cluster: ") for line in lines)


def test_on_a_terminal_it_is_drawn_and_ctrl_c_stops_it_cleanly():
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(COMMAND, ["bursar", "up"])  # noqa: S606 - a terminal of its own needs a fork
    try:
        drawn = _read_until(terminal, b"north")
        os.write(terminal, b"\x03")
        rest = _read_until(terminal, b"bursar up: embedded cluster: ")
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        raise
    finally:
        _, status = os.waitpid(pid, 0)
        os.close(terminal)

    assert b"CPU" in drawn
    assert b"embedded cluster" in rest
    assert os.waitstatus_to_exitcode(status) == 0


def _read_until(terminal: int, wanted: bytes) -> bytes:
    read = b""
    while wanted not in read:
        ready, _, _ = select.select([terminal], [], [], PATIENCE_SECONDS)
        assert ready, f"{wanted!r} was never drawn: {read!r}"
        read += os.read(terminal, 65536)
    return read


def _wait_until_listening(pid: int, number: int) -> None:
    """Until the process has its own answer to a signal, which would simply end it before."""

    def is_listening() -> bool:
        status = Path(f"/proc/{pid}/status").read_text()
        return bool(int(status.split("SigCgt:")[1].split()[0], 16) >> (number - 1) & 1)

    until_sync(is_listening, "the process handles the signal")


def test_it_ends_when_asked_to_terminate():
    with subprocess.Popen(
        [str(COMMAND), "up", "-o", "json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        _wait_until_listening(process.pid, signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=PATIENCE_SECONDS)

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


def phases(path):
    """The phase of each saved pod, by name."""
    pods = [each for each in saved_objects(path) if each["kind"] == "Pod"]
    return {pod["metadata"]["name"]: pod.get("status", {}).get("phase") for pod in pods}


def begun_work(path: Path) -> dict:
    """The state in which the Deployment and the Job have pods; the Job is far from complete."""
    for milliseconds in (300, 900, 2700, 8100, 24300):
        path.unlink(missing_ok=True)
        arguments = ("-f", "-", "--state", str(path), "--for", f"{milliseconds}ms")
        state = ended_state(*arguments, stdin=WORK.encode())
        if len(phases(path)) >= 5:
            break
    return state


def test_a_cluster_goes_on_where_it_was_left(tmp_path):
    state = tmp_path / "state"
    first = begun_work(state)
    before = phases(state)
    jobs = {name for name in before if name.startswith("work-")}

    def is_grown(_: object) -> bool:
        return all(phases(state)[name] == "Succeeded" for name in jobs)

    second = grown_state(is_grown, "--state", str(state))
    after = phases(state)

    assert stat.S_IMODE(state.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
    assert [node["name"] for node in first["nodes"]] == ["only"]
    assert [node["name"] for node in second["nodes"]] == ["only"]
    assert len(jobs) >= 2
    assert len(before) == len(jobs) + 3
    assert {name: after[name] for name in before} == {
        name: "Succeeded" if name in jobs else "Running" for name in before
    }
    assert second["pods"]["succeeded"] >= 2


def test_what_comes_later_is_not_taken_for_what_was_there(tmp_path):
    """The same seed must not give the same uids and names again."""
    state = tmp_path / "state"
    begun_work(state)
    before = {each["metadata"]["uid"] for each in saved_objects(state)}
    grown_state(lambda _: len(saved_objects(state)) > len(before), "--state", str(state))
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
        process.communicate(timeout=PATIENCE_SECONDS)

    assert process.returncode == 0
    assert len(phases(state)) >= 2


def test_a_cluster_is_kept_even_if_nobody_reads_on(tmp_path):
    state = tmp_path / "state"
    command = f"{COMMAND} up --state {state} --for 1s | head -1"
    subprocess.run(
        ["bash", "-c", command], check=True, timeout=PATIENCE_SECONDS, capture_output=True
    )

    assert saved_objects(state)


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> bytes:
    """The file of a cluster that was kept."""
    state = tmp_path_factory.mktemp("kept") / "state"
    ended_state("-f", "-", "--state", str(state), "--for", "100ms", stdin=NODE.encode())
    return state.read_bytes()


def test_manifests_are_not_mixed_into_a_kept_cluster(tmp_path, kept):
    state = tmp_path / "state"
    state.write_bytes(kept)
    ran = run_bursar("up", "-f", "-", "--state", str(state), stdin=NODE.encode())

    assert (ran.code, ran.out) == (2, "")
    assert f"-f is for a new cluster, and {state} already holds one" in ran.err
    assert state.read_bytes() == kept


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
def test_a_damaged_or_foreign_file_is_refused_and_left_alone(tmp_path, kept, damage, problem):
    state = tmp_path / "state"
    damaged = damage(kept)
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
