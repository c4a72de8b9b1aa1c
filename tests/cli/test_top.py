"""`bursar top peerpods` as a user meets it, with files and with a cluster."""

import json
import subprocess
import sys

from click.testing import CliRunner, Result

from bursar.cli.errors.exit_codes import BadInputError
from bursar.cli.top.top import top
from support.builders.manifests import a_manifest, pod_manifest
from support.builders.pods import listed

VM = "kata.peerpods.io/vm"


def a_node(name, amounts):
    return a_manifest("v1", "Node", name, status={"capacity": listed(f"cpu=4 {amounts}")})


def vm_pod(name, *gates, limits=f"{VM}=1", phase="Pending", **more):
    return pod_manifest(f"shop/{name}", *gates, limits=limits, phase=phase, **more)


SCENE = [
    a_node("n1", f"{VM}=10"),
    a_node("n2", f"{VM}=2"),
    a_node("plain", "pods=110"),
    vm_pod("a", node="n1", phase="Running"),
    vm_pod("b", node="n1"),
    vm_pod("c", node="n2", phase="Succeeded"),
    vm_pod("d", node="n2", phase="Running"),
    vm_pod("waits"),
    vm_pod("gated", "g"),
    vm_pod("ordinary", node="n1", limits="cpu=1", phase="Running"),
]


def asked(*arguments: str, scene=SCENE) -> Result:
    return CliRunner().invoke(
        top,
        ["peerpods", *arguments],
        input="\n---\n".join(map(json.dumps, scene)),
        standalone_mode=False,
    )


def test_table_shows_each_node_and_the_whole():
    ran = asked("-f", "-")

    assert ran.return_value == 0
    lines = ran.stdout.splitlines()
    assert [line.split() for line in lines[:-1]] == [
        ["NODE", "CAPACITY", "ALLOCATABLE", "USED", "FREE", "PODS"],
        ["n1", "10", "10", "2", "8", "2"],
        ["n2", "2", "2", "1", "1", "1"],
        ["(all)", "12", "12", "3", "9", "3"],
    ]
    assert lines[-1] == "Waiting: 2 for 2 pods without a node, 1 of them behind a gate"


def test_document_has_the_same():
    document = json.loads(asked("-f", "-", "-o", "json").stdout)

    assert document["resource"] == "kata.peerpods.io/vm"
    assert document["nodes"][0] == {
        "node": "n1", "capacity": "10", "allocatable": "10", "used": "2", "free": "8", "pods": 2
    }  # fmt: skip
    assert document["total"] == {
        "capacity": "12", "allocatable": "12", "used": "3", "free": "9", "pods": 3
    }  # fmt: skip
    assert document["waiting"] == {"amount": "2", "pods": 2, "gated": 1}


def test_another_resource_may_be_asked_for():
    document = json.loads(asked("-f", "-", "--resource", "cpu", "-o", "json").stdout)

    assert [node["used"] for node in document["nodes"]] == ["1", "0", "0"]
    assert document["waiting"]["pods"] == 0


def test_cluster_without_the_resource_is_told():
    ran = asked("-f", "-", scene=[a_node("plain", "pods=110")])

    assert ran.return_value == 0
    assert (ran.stdout, ran.stderr) == ("", "bursar: no node offers kata.peerpods.io/vm\n")


def test_name_that_is_none_is_bad_input():
    ran = asked("-f", "-", "--resource", "a b\x1b")

    assert isinstance(ran.exception, BadInputError)
    assert str(ran.exception) == "a b\\x1b: not the name of a resource"


def test_files_and_a_cluster_exclude_each_other():
    assert "-f and -k read files" in str(asked("-f", "-", "--context", "x").exception)


def test_cluster_that_cannot_be_found_is_bad_input(tmp_path):
    ran = asked("--kubeconfig", str(tmp_path / "none"))

    assert isinstance(ran.exception, BadInputError)


LAUNCH = "import sys; from bursar.cli.top.top import top; sys.exit(top.main(standalone_mode=False))"


def test_live_cluster_is_read(control_plane):
    words = ["peerpods", "--kubeconfig", str(control_plane.kubeconfig), "--resource", "pods"]
    done = subprocess.run(
        [sys.executable, "-c", LAUNCH, *words, "-o", "json"],
        capture_output=True,
        timeout=60,
        check=True,
    )
    document = json.loads(done.stdout)

    offered = {node["node"]: node["capacity"] for node in document["nodes"]}
    assert [offered[f"node-{number}"] for number in range(3)] == ["110"] * 3
