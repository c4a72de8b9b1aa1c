"""Bursar on an API server of an older version, which has no policies that change pods.

The server emulates that version: it has its APIs and features. `make test-skew` runs more tests,
also on programs of older versions.
"""

import json

import pytest

from bursar.app.doctor.versions import MUTATING_POLICIES_SINCE, losses
from support.cluster.control_plane import started_control_plane
from support.processes.command_line import run_bursar
from support.processes.kubectl import try_kubectl
from support.quota.installed_aaq import a_system

VERSION = "emulated-1.34"


@pytest.fixture(scope="module")
def plane():
    with started_control_plane(version=VERSION, is_bare=True) as plane:
        yield plane


def verdicts(plane, home):
    ran = run_bursar("doctor", f"--kubeconfig={plane.kubeconfig}", "-n", home, "-o", "json")
    found = json.loads(ran.out)
    notes = [each["text"] for each in found if each["verdict"] == "note"]
    others = {each["check"]: each["verdict"] for each in found if each["verdict"] != "note"}
    return ran.code, others, notes


@pytest.mark.integration
def test_an_installation_by_webhooks_works_and_the_doctor_says_what_is_lost(
    plane, tmp_path_factory
):
    code, found, _ = verdicts(plane, "aaq")
    assert (code, found["kinds"], found["gate"]) == (1, "problem", "problem")

    with a_system(plane, tmp_path_factory.mktemp("system")) as system:
        with system.namespace() as place:
            place.quota({"pods": "1"})
            place.admit("first")
            place.pod("second")
            place.check_stays_gated("second")
            place.delete("pods", "first")
            place.wait_released("second")

        code, found, notes = verdicts(plane, system.home)
        assert (code, set(found.values())) == (0, {"ok"})
        assert [each.split(" before ")[0] for each in notes] == [
            f"no {each.feature}" for each in losses(plane.minor)
        ]
        assert "version of the API server" in system.controller.log.read_text()


@pytest.mark.integration
def test_policies_that_gate_are_refused_with_words_that_the_documentation_has(plane):
    assert plane.minor < MUTATING_POLICIES_SINCE
    printed = run_bursar("manifests", "policies")
    ran = try_kubectl(plane, "apply", "--dry-run=server", "-f", "-", stdin=printed.out)

    assert 'no matches for kind "MutatingAdmissionPolicy" in version' in ran.err
