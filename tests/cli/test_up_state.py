"""`bursar up --state`: a cluster that outlives the command."""

import json
import signal
import stat
import subprocess
from pathlib import Path

import pytest

from support.processes.command_line import COMMAND, run_bursar
from support.processes.embedded_up import FULL_NODE, ended_state, grown_state
from support.until import PATIENCE_SECONDS

pytestmark = pytest.mark.slow

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
    ended_state("-f", "-", "--state", str(state), "--for", "100ms", stdin=FULL_NODE.encode())
    return state.read_bytes()


def test_manifests_are_not_mixed_into_a_kept_cluster(tmp_path, kept):
    state = tmp_path / "state"
    state.write_bytes(kept)
    ran = run_bursar("up", "-f", "-", "--state", str(state), stdin=FULL_NODE.encode())

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
