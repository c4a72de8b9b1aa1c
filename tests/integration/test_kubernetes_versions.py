"""Bursar on an older API server: what works, what is lost, and that users are told.

`make test` runs this on an API server that emulates 1.34, `make test-skew` on each version that it
is given.
"""

import json
import re
from pathlib import Path

import pytest
import yaml

from bursar.app.doctor.supported import MUTATING_POLICIES_SINCE
from controlplane import chosen_version
from support.chart.helm import CHART, try_helm
from support.cluster.control_plane import started_control_plane
from support.install.kubernetes_features import (
    SINCE,
    missing_features,
    pod_with_resources_of_its_own,
)
from support.install.printed import printed
from support.operator.running import running_operator
from support.processes.command_line import run_bursar
from support.processes.kubectl import kubectl, try_kubectl
from support.quota.installed_aaq import a_system, idle_pod

pytestmark = pytest.mark.integration

VERSION = chosen_version() or "emulated-1.34"
LOST = Path(__file__).parents[1] / "golden" / "doctor" / "lost-on-1.32.txt"
"""What `bursar doctor` notes on the oldest version. Each line names the version that has it."""


def told(minor: int) -> list[str]:
    """The notes about a server of this minor version."""
    lines = LOST.read_text().splitlines()
    return [line for line in lines if minor < int(re.findall(r"before 1\.(\d+): ", line)[0])]


@pytest.fixture(scope="module")
def plane():
    with started_control_plane(version=VERSION, nodes=1) as plane:
        yield plane


# ------------------------------------------------------------------ what the server lacks


def test_the_server_lacks_the_features_that_are_said_to_be_newer_and_no_others(plane):
    assert missing_features(plane) == {since for since in SINCE if plane.minor < since}


def test_resources_of_a_pod_change_by_a_resize_alone(plane):
    kubectl(plane, "create", "namespace", "sizes")
    # Pods are refused without it, and its controller need not be waited for.
    account = {"metadata": {"name": "default"}}
    plane.request("POST", "/api/v1/namespaces/sizes/serviceaccounts", account)
    kubectl(plane, "create", "-n", "sizes", "-f", "-", stdin=json.dumps(idle_pod("pod", "cpu=1")))
    path = "/spec/containers/0/resources/requests/cpu"
    change = json.dumps([{"op": "replace", "path": path, "value": "2"}])

    patch = ("patch", "pod", "pod", "-n", "sizes", "--type=json", "-p", change)
    assert "pod updates may not change fields other than" in try_kubectl(plane, *patch).err
    resized = try_kubectl(plane, *patch, "--subresource=resize")
    assert (resized.code == 0) == (plane.minor >= 33), resized.err


# ------------------------------------------------------------------ what works


def verdicts(plane, home):
    ran = run_bursar("doctor", f"--kubeconfig={plane.kubeconfig}", "-n", home, "-o", "json")
    found = json.loads(ran.out)
    notes = [each["text"] for each in found if each["verdict"] == "note"]
    others = {each["check"]: each["verdict"] for each in found if each["verdict"] != "note"}
    advice = {each["check"]: each["advice"] for each in found if each["advice"]}
    return ran.code, others, notes, advice


def test_an_installation_by_webhooks_works_and_the_doctor_says_what_is_lost(
    plane, tmp_path_factory
):
    code, found, _, advice = verdicts(plane, "aaq")
    assert (code, found["kinds"], found["gate"]) == (1, "problem", "problem")
    if plane.minor < MUTATING_POLICIES_SINCE:
        assert advice["gate"] == "apply: bursar manifests webhook webhooks"

    with a_system(plane, tmp_path_factory.mktemp("system")) as system:
        with system.namespace() as place:
            place.quota({"pods": "1", "requests.cpu": "4"})
            place.try_create("pods", pod_with_resources_of_its_own("first"))
            place.wait_released("first")
            place.pod("second", "cpu=1")
            place.check_stays_gated("second")
            place.wait_used("pods=1 requests.cpu=" + ("3" if plane.minor >= 34 else "1"))
            place.delete("pods", "first")
            place.wait_released("second")

        code, found, notes, _ = verdicts(plane, system.home)
        assert (code, set(found.values())) == (0, {"ok"})
        assert notes == told(plane.minor)
        log = system.controller.log.read_text()
        assert "version of the API server" in log
        assert [text for text in notes if text not in log] == []


def test_every_part_for_this_version_is_accepted_without_a_warning(plane):
    parts = ("crds", "rbac", "controller", "webhook", "webhooks", "peerpods", "capacity")
    others = ("kubevirt", "agent", "removal", "operator", "extender")
    options = (f"--kubernetes=1.{plane.minor}", "--image=bursar:test", "--peerpods-namespace=aaq")
    text = printed(*parts, *others, *options)
    home = next(each for each in yaml.safe_load_all(text) if each["kind"] == "Namespace")
    kubectl(plane, "apply", "--server-side", "-f", "-", stdin=yaml.safe_dump(home))

    trial = ("--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict")
    ran = try_kubectl(plane, "apply", *trial, "-f", "-", stdin=text)

    assert ran.err == ""
    assert "validatingadmissionpolicy" in ran.out


# ------------------------------------------------------------------ what is refused


def test_policies_that_gate_are_refused_with_words_that_the_documentation_has(plane):
    assert plane.minor < MUTATING_POLICIES_SINCE
    ran = try_kubectl(plane, "apply", "--dry-run=server", "-f", "-", stdin=printed("policies"))
    assert 'no matches for kind "MutatingAdmissionPolicy" in version' in ran.err


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ((), "so policies cannot gate pods; set quota.gate to webhooks"),
        (
            ("quota.gate=webhooks", "peerPods.enabled=true", "peerPods.mode=policy"),
            "so a policy cannot rewrite pods; set peerPods.mode to webhook",
        ),
    ],
)
def test_the_chart_refuses_policies_and_names_the_value_to_change(plane, values, problem):
    def install(*values):
        ran = try_helm(
            *("install", "bursar", str(CHART), "--dry-run=server", "-n", "default"),
            *(f"--set={each}" for each in values),
            *("--kubeconfig", str(plane.kubeconfig)),
            home=plane.folder,
        )
        return ran.code, ran.err

    code, words = install(*values)
    assert code != 0
    assert "has no MutatingAdmissionPolicy v1" in words
    assert problem in words
    assert install("quota.gate=webhooks", "peerPods.enabled=true")[0] == 0


def test_the_operator_refuses_policies_and_installs_webhooks(plane, tmp_path):
    with running_operator(plane, tmp_path) as operator:
        operator.apply_aaq({"bursar.io/gate": "policies"})
        operator.wait_for(lambda: operator.conditions().get("Degraded") == "True")
        texts = {each["message"] for each in operator.status["conditions"]}
        assert any("so policies cannot gate pods; choose webhooks" in each for each in texts)
        assert operator.owned() == set()

        operator.apply_aaq()
        operator.wait_deployed()
        assert operator.conditions()["Degraded"] == "False"
        operator.delete_aaq()
        assert operator.owned() == set()
