"""`bursar up` as a user meets it: the embedded cluster, and a real one only when named."""

import json
import signal
import subprocess
from pathlib import Path

import pytest

from support.processes.command_line import COMMAND, run_bursar
from support.processes.embedded_up import FULL_NODE, ended_state, grown_state
from support.until import PATIENCE_SECONDS, until_sync

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def example() -> dict:
    """The example cluster, when all has happened that can."""

    def is_grown(state: dict) -> bool:
        reasons = {event["reason"] for event in state["events"]}
        return {"ResizeRefused", "Released", "Finished", "FailedCreate"} <= reasons and (
            any(event["name"].startswith("payroll-") for event in state["events"])
        )

    return grown_state(is_grown, seconds=(30, 60, 120))


def test_the_example_cluster_comes_to_life_and_stops_by_itself(example):
    state = example

    assert state["cluster"] == "embedded cluster"
    assert [node["name"] for node in state["nodes"]] == ["gpu", "north", "south"]
    assert all(node["ready"] for node in state["nodes"])
    reasons = {pod["name"]: pod["reason"] for pod in state["waiting"]}
    assert reasons["held-back"] == "other scheduling gates come first: example.com/approval"
    assert "2 Insufficient cpu" in reasons["yearly-report"]


def test_a_quota_holds_pods_back_and_says_why(example):
    state = example

    quotas = {quota["name"]: quota for quota in state["quotas"]}
    assert quotas["gpus"]["kind"] == "ApplicationAwareResourceQuota"
    assert quotas["gpus"]["hard"] == {"requests.nvidia.com/gpu": "2", "pods": "10"}
    assert quotas["gpus"]["used"]["requests.nvidia.com/gpu"] == "2"
    waiting = [pod for pod in state["waiting"] if pod["name"].startswith("training-")]
    assert [pod["position"] for pod in waiting] == [2, 3]
    reason = (
        "exceeded quota: gpus, requested: requests.nvidia.com/gpu=1, used: "
        "requests.nvidia.com/gpu=2, limited: requests.nvidia.com/gpu=2; missing: "
        "requests.nvidia.com/gpu=1"
    )
    assert {pod["reason"] for pod in waiting} == {reason}
    assert {
        "quota": "gpus",
        "kind": "ApplicationAwareResourceQuota",
        "namespace": "research",
        "resource": "requests.nvidia.com/gpu",
    } in state["full"]


def told(state: dict, reason: str, prefix: str) -> list[str]:
    """The notes of events with a reason about objects with a prefix, the oldest first."""
    return [
        event["note"]
        for event in reversed(state["events"])
        if event["reason"] == reason and event["name"].startswith(prefix)
    ]


def test_the_example_tells_a_story(example):
    """Quotas fill, pods wait and are released in order, a VM is taken, a resize is refused."""
    waits = [e["name"] for e in reversed(example["events"]) if e["reason"] == "QuotaExceeded"]
    released = [e["name"] for e in reversed(example["events"]) if e["reason"] == "Released"]
    waited_first = [name for name in dict.fromkeys(waits) if name in released]

    assert [name for name in released if name in waited_first]
    assert "takes kata.peerpods.io/vm 1" in told(example, "Placed", "payroll-")[0]
    [refused] = told(example, "ResizeRefused", "notebook")
    assert "exceeded quota: compute, requested: requests.cpu=5" in refused
    assert "exceeded quota: budget" in told(example, "FailedCreate", "thumbnails")[0]
    assert "memory 256Mi" in told(example, "Placed", "thumbnails")[0]


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


def test_it_starts_with_what_the_files_hold():
    state = grown_state(lambda state: state["pods"]["running"], "-f", "-", stdin=FULL_NODE.encode())

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


CHART = """
apiVersion: v1
kind: Service
metadata: {name: web}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
---
apiVersion: v1
kind: Service
metadata: {name: admin}
"""


def test_kinds_that_the_embedded_cluster_does_not_have_are_passed_over_with_a_note():
    ran = run_bursar(
        *("up", "-f", "-", "--for", "1s", "-o", "json"), stdin=f"{CHART}---{FULL_NODE}".encode()
    )

    assert ran.code == 0
    assert [node["name"] for node in json.loads(ran.out)["nodes"]] == ["only"]
    without = "the embedded cluster does not have this kind"
    assert ran.err.splitlines() == [
        f"bursar up: skipped 1 HorizontalPodAutoscaler (autoscaling/v2): {without}",
        f"bursar up: skipped 1 PersistentVolumeClaim (v1): {without}",
        f"bursar up: skipped 2 Service (v1): {without}",
    ]


def test_a_pod_that_a_quota_of_the_files_refuses_is_left_out_with_a_note():
    quota = """
apiVersion: v1
kind: ResourceQuota
metadata: {name: none, namespace: somewhere}
spec: {hard: {pods: "0"}}
"""
    ran = run_bursar(
        *("up", "-f", "-", "--for", "1s", "-o", "json"), stdin=f"{FULL_NODE}---{quota}".encode()
    )

    assert ran.code == 0
    assert ran.err == (
        'bursar up: refused Pod: pods "fills-it" is forbidden: exceeded quota: none, requested: '
        "pods=1, used: pods=0, limited: pods=0\n"
    )


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
        (["--context", "c", "--vmi-mode", "VirtualResources"], "--vmi-mode is for the embedded"),
        (["--state", "/no/such/folder/x"], "/no/such/folder/x: the folder does not exist"),
        (["--state", "/"], "/: not a file"),
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
