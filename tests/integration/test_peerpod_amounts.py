"""Amounts in files: the record has the text that the real API server stores."""

import json

import pytest

from cli.test_peerpod_numbers import from_yaml, recorded
from controlplane import ControlPlane
from support.builders.peer_pods import a_peer_pod, main
from support.cluster.control_plane import wait_for_account
from support.processes.kubectl import kubectl


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> ControlPlane:
    """A cluster whose default namespace takes pods: its service account is there."""
    wait_for_account(control_plane)
    return control_plane


def stored(text: str) -> str:
    [container] = json.loads(text)["spec"]["containers"]
    return container["resources"]["requests"]["memory"]


@pytest.mark.parametrize("amount", ["1e9", '"1e9"', "10e8", "1.50", "1000000000", '"1.5Gi"'])
def test_a_json_file_is_recorded_as_the_api_server_stores_its_body(
    plane: ControlPlane, amount: str
) -> None:
    pod = json.dumps(a_peer_pod(main("memory=<n>"))).replace('"<n>"', amount)
    body = pod.replace('"runtimeClassName": "kata-remote", ', "").replace('"shop"', '"default"')
    path = "/api/v1/namespaces/default/pods?dryRun=All"
    answer = kubectl(plane, "create", "--raw", path, "-f", "-", stdin=body)

    assert recorded(pod) == stored(answer)


@pytest.mark.parametrize("amount", ["1e9", "'1e9'", "129e6", "1.50", "0x10", "1.5Gi"])
def test_a_yaml_file_is_recorded_as_the_api_server_stores_what_kubectl_sends(
    plane: ControlPlane, amount: str
) -> None:
    pod = from_yaml("1").replace("{cpu: 1}", f"{{memory: {amount}}}")
    plain = pod.replace("  runtimeClassName: kata-remote\n", "").replace("  future: [1]\n", "")
    plain = plain.replace("shop", "default").replace("name: c0", "name: c0, image: i")
    answer = kubectl(plane, "create", "--dry-run=server", "-o", "json", "-f", "-", stdin=plain)

    assert recorded(pod) == stored(answer)
