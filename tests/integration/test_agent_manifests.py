"""The agent's manifests on a real API server: taken, allowed what they say, and able to do it."""

import json
import uuid

import pytest
import yaml

from support.cluster.control_plane import wait_for_account
from support.install.printed import printed, printed_objects
from support.processes.kubectl import kubectl, try_kubectl

REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
CASES = {
    "as it comes": (),
    "all options": (
        "--kubelet-cert=/var/lib/kubelet/pki/kubelet.crt",
        "--sources-config=our-sources",
        "--host-network",
        "--agent-option=--trust=any",
        "--agent-option=--only-with-devices",
        "--socket-dir=/run/devices",
        "--kubelet-dir=/data/kubelet",
    ),
    "pods from the API server": ("--pods-from=api",),
    "pods from the read-only port": ("--pods-from=kubelet-read-only",),
}


@pytest.fixture(scope="module")
def home(control_plane):
    name = f"agents-{uuid.uuid4().hex[:6]}"
    kubectl(control_plane, "create", "namespace", name)
    yield name
    kubectl(control_plane, "delete", "namespace", name, "--wait=false")


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_the_api_server_takes_every_document_as_it_is(control_plane, home, options):
    text = printed("agent", "-n", home, *options)
    strictly = ("--dry-run=server", "--validate=strict", "-o", "json")
    ran = try_kubectl(control_plane, "apply", *strictly, "-f", "-", stdin=text)

    assert ran.code == 0, ran.err
    assert ran.err == ""
    stored = {each["kind"]: each for each in json.loads(ran.out)["items"]}
    for each in yaml.safe_load_all(text):
        assert contains(stored[each["kind"]], each)


def test_only_the_folders_of_the_host_and_root_keep_it_from_being_restricted(control_plane):
    """A namespace that enforces the profile says what an administrator has to allow."""
    strict = f"strict-{uuid.uuid4().hex[:6]}"
    kubectl(control_plane, "create", "namespace", strict)
    wait_for_account(control_plane, strict)
    kubectl(control_plane, "label", "ns", strict, "pod-security.kubernetes.io/enforce=restricted")
    (daemon_set,) = [
        each for each in printed_objects("agent", "-n", strict) if each["kind"] == "DaemonSet"
    ]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "agent", "namespace": strict},
        "spec": daemon_set["spec"]["template"]["spec"] | {"serviceAccountName": "default"},
    }
    ran = try_kubectl(control_plane, "apply", "--dry-run=server", "-f", "-", stdin=json.dumps(pod))
    kubectl(control_plane, "delete", "namespace", strict, "--wait=false")

    assert ran.code != 0
    complaints = ran.err.split("violates PodSecurity")[1]
    assert "hostPath" in complaints
    assert "runAsNonRoot" in complaints
    for fine in ("capabilities", "allowPrivilegeEscalation", "seccomp", "privileged", "hostPort"):
        assert fine not in complaints


def test_the_account_may_do_what_the_agent_does_and_no_more(control_plane, home):
    name = f"grants-{uuid.uuid4().hex[:6]}"
    text = printed("agent", "-n", home).replace("name: bursar-agent", f"name: {name}")
    kubectl(control_plane, "apply", "-f", "-", stdin=text)
    account = f"system:serviceaccount:{home}:{name}"

    def may(verb, resource, *, group="", subresource="", namespace=""):
        asked = {"verb": verb, "resource": resource, "group": group, "namespace": namespace}
        spec = {"user": account, "resourceAttributes": asked | {"subresource": subresource}}
        code, answer = control_plane.request("POST", REVIEWS, {"spec": spec})
        assert code < 300, answer
        return json.loads(answer)["status"]["allowed"]

    try:
        assert may("get", "nodes", subresource="pods")
        assert may("watch", "devices", group="scheduling.koordinator.sh")
        assert may("create", "events", group="events.k8s.io", namespace="default")
        assert not may("get", "nodes", subresource="proxy")
        assert not may("create", "nodes", subresource="proxy")
        assert not may("get", "nodes")
        assert not may("list", "pods")
        assert not may("get", "secrets")
        assert not may("patch", "nodes", subresource="status")
    finally:
        kubectl(control_plane, "delete", "-f", "-", "--wait=false", stdin=text)


def contains(stored, written):
    """Whether everything that was written is still there, defaults aside."""
    if isinstance(written, dict):
        return all(key in stored and contains(stored[key], value) for key, value in written.items())
    if isinstance(written, list):
        return len(stored) == len(written) and all(map(contains, stored, written))
    return stored == written
