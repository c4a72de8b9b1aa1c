"""What the manifests of the agent say, before any API server has read them."""

import pytest

from bursar.app.devices.defaults import PodsFrom
from bursar.app.install.agent import AgentInstallation, agent_documents
from bursar.app.install.policies.device_protection import device_protection_documents

IMAGE = "bursar:1"


def documents(**settings):
    found = agent_documents(AgentInstallation(image=IMAGE, **settings))
    return {each["kind"]: each for each in found}


def pod(**settings):
    return documents(**settings)["DaemonSet"]["spec"]["template"]["spec"]


def container(**settings):
    (found,) = pod(**settings)["containers"]
    return found


METRICS = {
    ("authentication.k8s.io", "tokenreviews"): ["create"],
    ("authorization.k8s.io", "subjectaccessreviews"): ["create"],
}
"""What the agent needs to ask who reads its metrics."""


def granted(**settings):
    return {
        (group, resource): rule["verbs"]
        for rule in documents(**settings)["ClusterRole"]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def test_the_account_comes_before_what_refers_to_it():
    found = agent_documents(AgentInstallation(image=IMAGE, namespace="home"))

    assert [each["kind"] for each in found] == [
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "DaemonSet",
    ]
    account, role, binding, daemon_set = found
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "namespace": "home", "name": account["metadata"]["name"]}
    ]
    assert daemon_set["metadata"]["namespace"] == account["metadata"]["namespace"] == "home"
    assert pod()["serviceAccountName"] == account["metadata"]["name"]


def test_weakness_21_kubelet_is_asked_for_its_pods_and_never_with_a_right_to_enter_containers():
    assert granted() == {
        ("", "nodes/pods"): ["get"],
        ("scheduling.koordinator.sh", "devices"): ["list", "watch"],
        ("events.k8s.io", "events"): ["create", "patch"],
        **METRICS,
    }


def test_pods_are_watched_only_where_the_api_server_is_the_source():
    from_api = granted(pods_from=PodsFrom.API)
    without = granted(pods_from=PodsFrom.READ_ONLY)

    assert from_api[("", "pods")] == ["list", "watch"]
    assert ("", "nodes/pods") not in from_api
    assert {group for group, _ in without} == {
        *("scheduling.koordinator.sh", "events.k8s.io"),
        *(group for group, _ in METRICS),
    }


def test_the_agent_is_root_without_any_power_of_root():
    spec, security = pod(), container()["securityContext"]

    assert spec["securityContext"]["runAsUser"] == 0
    assert security == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)


def test_folders_are_mounted_and_never_sockets():
    volumes = {each["name"]: each["hostPath"] for each in pod()["volumes"]}
    mounts = {each["name"]: each for each in container()["volumeMounts"]}

    assert volumes == {
        "socket": {"path": "/var/run/koordlet/pod-resources", "type": "DirectoryOrCreate"},
        "kubelet": {"path": "/var/lib/kubelet/pod-resources", "type": "Directory"},
    }
    assert mounts["socket"] == {"name": "socket", "mountPath": "/var/run/koordlet/pod-resources"}
    assert mounts["kubelet"]["readOnly"] is True


def test_other_folders_are_mounted_and_told_alike():
    installation = {"socket_folder": "/run/devices", "kubelet_folder": "/data/kubelet"}
    arguments = container(**installation)["args"]

    assert [each["hostPath"]["path"] for each in pod(**installation)["volumes"]] == [
        each["mountPath"] for each in container(**installation)["volumeMounts"]
    ]
    assert "--socket=/run/devices/kubelet.sock" in arguments
    assert "--kubelet-socket=/data/kubelet/pod-resources/kubelet.sock" in arguments


def test_it_runs_on_every_node_whatever_its_taints():
    assert pod()["tolerations"] == [{"operator": "Exists"}]
    assert pod()["priorityClassName"] == "system-node-critical"


def test_kubelet_is_reached_by_the_address_of_the_host():
    named = {
        each["name"]: each["valueFrom"]["fieldRef"]["fieldPath"]
        for each in container()["env"]
        if "valueFrom" in each
    }

    assert "--kubelet-address=$(NODE_IP)" in container()["args"]
    assert named["NODE_IP"] == "status.hostIP"
    assert named["NODE_NAME"] == "spec.nodeName"
    assert not [
        each for each in container(pods_from=PodsFrom.API)["args"] if "kubelet-address" in each
    ]


def test_a_kubelet_that_signed_its_own_certificate_is_known_by_it_and_by_its_node():
    settings = {"kubelet_certificate": "/var/lib/kubelet/pki/kubelet.crt"}
    volume = pod(**settings)["volumes"][-1]
    mount = container(**settings)["volumeMounts"][-1]

    assert volume["hostPath"] == {"path": settings["kubelet_certificate"], "type": "File"}
    assert mount["readOnly"] is True
    assert container(**settings)["args"][-2:] == [
        f"--kubelet-ca={mount['mountPath']}",
        "--kubelet-server-name=$(NODE_NAME)",
    ]


def test_sources_come_from_a_config_map():
    settings = {"sources_config": "our-sources"}
    mount = container(**settings)["volumeMounts"][-1]

    assert pod(**settings)["volumes"][-1]["configMap"] == {"name": "our-sources"}
    assert container(**settings)["args"][-1] == f"--sources={mount['mountPath']}/sources.yaml"


def test_on_the_network_of_the_host_it_needs_nobody_to_start():
    spec = pod(is_on_host_network=True)

    assert spec["hostNetwork"] is True
    assert spec["dnsPolicy"] == "ClusterFirstWithHostNet"


def test_further_options_come_last_so_that_they_win():
    settings = {"options": ("--mode=compat", "--bind=")}

    assert container(**settings)["args"][-2:] == ["--mode=compat", "--bind="]


@pytest.mark.parametrize(
    "wrong",
    [
        {"image": ""},
        {"image": " bursar"},
        {"namespace": "Home"},
        {"socket_folder": "run/here"},
        {"socket_folder": "/"},
        {"socket_folder": "/var/lib/kubelet/pod-resources"},
        {"socket_folder": "/var/lib/kubelet/device-plugins"},
        {"socket_folder": "//data/./pod-resources/", "kubelet_folder": "/data/"},
        {"kubelet_folder": "/var/lib/../kubelet"},
        {"kubelet_certificate": "/a:b"},
        {"sources_config": "Our Sources"},
    ],
    ids=str,
)
def test_what_cannot_work_is_refused(wrong):
    with pytest.raises(ValueError, match="is not"):
        AgentInstallation(**{"image": IMAGE, **wrong})


# ------------------------------------------------------------------ who records devices


def test_only_named_users_record_devices():
    policy, binding = device_protection_documents(("koord", "system:serviceaccount:a:b"))

    (_, others) = policy["spec"]["matchConditions"]
    assert "in 'koord,system:serviceaccount:a:b'.split(',')" in others["expression"]
    assert binding["spec"] == {
        "policyName": policy["metadata"]["name"],
        "validationActions": ["Deny"],
    }


@pytest.mark.parametrize("user", ["", "a'b", "a,b", "a b"])
def test_a_name_that_no_user_has_is_refused(user):
    with pytest.raises(ValueError, match="not the name of a user"):
        device_protection_documents((user,))


# ------------------------------------------------------------------ local ephemeral storage


def test_without_disk_the_agent_reads_no_folder_of_pods_and_has_no_capability():
    assert container()["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert {each["name"] for each in pod()["volumes"]} == {"socket", "kubelet"}
    assert ("", "nodes/stats") not in granted()


def test_with_disk_the_agent_reads_folders_of_pods_and_changes_nothing_there():
    found = container(accounts_for_disk=True, kubelet_folder="/data/kubelet")
    mounts = {each["mountPath"]: each for each in found["volumeMounts"]}
    for path in ("/data/kubelet/pods", "/var/log/pods"):
        assert mounts[path]["readOnly"]
    assert mounts["/data/kubelet/pods"]["mountPropagation"] == "HostToContainer"
    assert found["securityContext"]["capabilities"] == {
        "drop": ["ALL"],
        "add": ["DAC_READ_SEARCH"],
    }
    assert {"--disk", "--kubelet-folder=/data/kubelet"} <= set(found["args"])
    assert set(granted(accounts_for_disk=True)) - set(granted()) == {
        ("", "nodes/stats"),
        ("", "nodes"),
    }
