"""Completion and `bursar version` with a real cluster."""

import json

import pytest

from support.processes.command_line import run_bursar
from support.processes.kubectl import kubectl

pytestmark = pytest.mark.integration


def completed(kubeconfig: str, *words: str) -> list[str]:
    ran = run_bursar(
        _BURSAR_COMPLETE="bash_complete",
        COMP_WORDS="\n".join(["bursar", *words]),
        COMP_CWORD=str(len(words)),
        KUBECONFIG=kubeconfig,
    )
    assert (ran.code, ran.err) == (0, "")
    return [line.removeprefix("plain,") for line in ran.out.splitlines()]


@pytest.fixture
def namespace(control_plane):
    kubectl(control_plane, "create", "namespace", "completed-shop")
    yield "completed-shop"
    kubectl(control_plane, "delete", "namespace", "completed-shop", "--wait=false")


def test_namespaces_and_names_come_from_the_cluster(control_plane, namespace):
    kubeconfig = str(control_plane.kubeconfig)
    quota = ["create", "quota", "compute", "-n", namespace, "--hard=pods=3"]
    kubectl(control_plane, *quota)

    assert completed(kubeconfig, "queue", "-n", "completed-") == [namespace]
    assert completed(kubeconfig, "migrate", "resourcequotas", "-n", namespace, "") == ["compute"]
    named = ["--kubeconfig", kubeconfig, "--namespace", "completed-"]
    assert completed("/none", "queue", *named) == [namespace]
    assert completed("/none", "queue", "-n", "completed-") == []


def test_the_version_of_the_cluster(control_plane):
    kubeconfig = str(control_plane.kubeconfig)
    server = json.loads(kubectl(control_plane, "version", "-o", "json"))["serverVersion"]

    ran = run_bursar("version", "--kubeconfig", kubeconfig, "-o", "json")
    assert json.loads(ran.out)["server"] == server["gitVersion"]
    assert "server" not in json.loads(
        run_bursar("version", "-o", "json", KUBECONFIG=kubeconfig).out
    )
