"""`bursar explain pod` as a user meets it, with files."""

import json
from typing import Any

from support.builders.manifests import arq_manifest, namespace_manifest, pod_manifest
from support.processes.command_line import Ran, run_bursar

GATE = "ApplicationAwareQuotaGate"
GATED = {"application-aware-quota/enable-gating": ""}


def a_node(name: str, cpu: str = "4", **spec: Any) -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": "8Gi", "pods": "10"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": spec,
        "status": {"capacity": amounts, "allocatable": amounts},
    }


SCENE = [
    a_node("node-a"),
    a_node("node-b", cpu="2", taints=[{"key": "gpu", "effect": "NoSchedule"}]),
    pod_manifest("shop/busy", requests="cpu=3", node="node-a", status={"phase": "Running"}),
    pod_manifest("shop/waits", requests="cpu=2"),
    pod_manifest("shop/fits", requests="cpu=500m"),
    pod_manifest("shop/huge", requests="cpu=64"),
]


def explained(*arguments: str, scene: list[dict[str, Any]] | None = None) -> Ran:
    text = "\n---\n".join(map(json.dumps, SCENE if scene is None else scene))
    return run_bursar("explain", "pod", "-f", "-", *arguments, stdin=text.encode())


def document(*arguments: str, scene: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    [found] = json.loads(explained(*arguments, "-o", "json", scene=scene).out)
    return found


def test_the_text_has_reasons_amounts_and_remedies_in_eighty_columns():
    ran = explained("waits")

    assert ran.code == 1
    assert max(map(len, ran.out.splitlines())) <= 80
    lines = [line.split() for line in ran.out.splitlines()]
    assert ["cpu", "2", "4", "3", "1"] in lines
    for words in (
        "NoNodeFits: none of the 2 nodes takes the pod",
        "1 Insufficient cpu, 1 node(s) had untolerated",
        "node-b: node(s) had untolerated taint(s) (TaintToleration); taints gpu:NoSchedule",
        "request less: 1 cpu instead of 2. Then node-a takes it",
        "end 1 pod on node-a: shop/busy",
        "tolerate gpu:NoSchedule in the pod, or remove it from node-b",
        "add a node of the size, labels and taints of node-a",
    ):
        assert " ".join(words.split()) in " ".join(ran.out.split()), words


def test_a_pod_that_fits_says_where_and_succeeds():
    ran = explained("fits")

    assert ran.code == 0
    assert "1 of 2 nodes would take the pod; the first choice is node-a" in ran.out


def test_a_pod_larger_than_any_node_never_runs():
    found = document("huge")

    assert found["summary"] == "never: the pod is larger than any node"
    placement = found["placement"]
    assert placement["never"]
    assert placement["largerThanAnyNode"] == [
        {"resource": "cpu", "requested": "64", "largest": "4", "node": "node-a"}
    ]


def test_the_document_has_every_node_and_the_event():
    found = document("waits")
    placement = found["placement"]

    assert (found["answer"], found["good"]) == ("NoNodeFits", False)
    assert placement["event"].startswith("0/2 nodes are available: 1 Insufficient cpu, ")
    assert [node["refusedBy"] for node in placement["nodes"]] == [
        ["NodeResourcesFit"],
        ["TaintToleration"],
    ]
    assert placement["nodes"][0]["missing"] == {
        "cpu": {"requested": "2", "allocatable": "4", "used": "3", "missing": "1"}
    }
    assert [each["kind"] for each in placement["remedies"]] == [
        *("LowerRequests", "FreePods", "Tolerate", "AddNode")
    ]
    assert placement["remedies"][1]["pods"] == ["shop/busy"]


def test_wide_lists_each_node():
    rows = [line.split() for line in explained("waits", "-o", "wide").out.splitlines()]

    assert [row[:3] for row in rows if row[:1] in (["node-a"], ["node-b"])] == [
        ["node-a", "no", "NodeResourcesFit"],
        ["node-b", "no", "TaintToleration"],
    ]


def test_without_a_name_all_pods_that_do_not_run_are_listed():
    ran = explained()

    assert ran.code == 1
    assert [line.split()[:3] for line in ran.out.splitlines()] == [
        ["NAMESPACE", "POD", "ANSWER"],
        ["shop", "waits", "NoNodeFits"],
        ["shop", "huge", "NoNodeFits"],
    ]
    assert max(map(len, ran.out.splitlines())) <= 80
    calm = explained(scene=[*SCENE[:3], SCENE[4]])
    assert (calm.code, calm.out) == (0, "")
    assert calm.err == "bursar: all 2 pods run, have succeeded or would fit\n"


def test_a_workload_is_explained_as_its_pods():
    template = {
        "metadata": {"labels": {"app": "w"}},
        "spec": pod_manifest("shop/x", requests="cpu=600m")["spec"],
    }
    workload = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": 3, "template": template},
    }
    ran = explained(scene=[*SCENE[:3], workload])

    assert ran.code == 1
    assert "1 of 3 replicas fit" in " ".join(
        explained("web", scene=[*SCENE[:3], workload]).out.split()
    )


def test_a_pod_behind_the_quota_gate_is_told_what_the_quota_lacks():
    scene = [
        namespace_manifest("shop", **GATED),
        arq_manifest("shop/team", {"memory": "1Gi"}),
        pod_manifest("shop/gated", GATE, requests="memory=2Gi"),
    ]
    found = document("gated", scene=scene)

    assert found["answer"] == "WaitsForQuota"
    assert "exceeded quota: team" in found["summary"]
    other = document("p", scene=[pod_manifest("shop/p", "example.com/gate")])
    assert other["answer"] == "WaitsForGates"
    assert "[example.com/gate]" in other["summary"]


def test_a_container_out_of_memory_is_told_its_limit_and_restarts():
    ran = run_bursar("explain", "pod", "-f", "examples/oom-killed.yaml")

    assert ran.code == 1
    words = " ".join(ran.out.split())
    assert "more memory than its limit of 50Mi (OOMKilled, exit code 137; restarted 5" in words


def test_what_was_not_checked_is_said():
    spec = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]}
    pod = pod_manifest("shop/p", requests="cpu=1", **spec)
    found = document("p", scene=[a_node("n"), pod])

    assert found["notChecked"][0] == "volumes: data"


def test_unusable_input_is_refused_with_what_to_do():
    ran = explained("nobody")
    assert (ran.code, ran.out) == (2, "")
    assert "no pod called nobody" in ran.err
    alone = explained("p", scene=[pod_manifest("shop/p")])
    assert alone.code == 2
    assert "kubectl get nodes,pods" in alone.err
    assert explained("--kubeconfig", "x").code == 2


def test_names_from_manifests_cannot_move_the_cursor():
    ran = explained(
        "p", scene=[a_node("n\x1b[2J", cpu="1"), pod_manifest("shop/p", requests="cpu=2")]
    )

    assert "\x1b" not in ran.out
