"""`bursar operator` on a real API server, with the rights of its own account.

The nodes are kwok's: pods of the installation are reported as running, and no process is in them.
"""

import json

import pytest

from bursar.core.quota.quota import GATE
from support.builders.manifests import pod_manifest
from support.cluster.control_plane import started_control_plane
from support.operator.running import EXAMPLES, HOME, RunningOperator, running_operator

pytestmark = pytest.mark.integration

DEFAULT = {"key": "application-aware-quota/enable-gating", "operator": "Exists"}


@pytest.fixture(scope="module")
def operator(tmp_path_factory):
    with (
        started_control_plane(nodes=3) as plane,
        running_operator(plane, tmp_path_factory.mktemp("operator")) as found,
    ):
        yield found


@pytest.fixture
def deployed(operator) -> RunningOperator:
    """An installation as AAQ's own example describes it."""
    operator.apply_aaq()
    operator.wait_deployed()
    return operator


def pod_specs(operator, label):
    listed = operator.get("pods", "-l", f"aaq.kubevirt.io={label}")
    return [each["spec"] for each in listed["items"]]


def test_e_op_01_aaqs_own_example_becomes_available(deployed):
    found = deployed.conditions()

    assert (found["Available"], found["Progressing"], found["Degraded"]) == (
        "True",
        "False",
        "False",
    )
    assert found["FieldsIgnored"] == "True"
    status = deployed.status
    assert status["observedVersion"] == status["operatorVersion"] == status["targetVersion"]
    listed = deployed.kubectl("get", "aaq").split()
    assert listed[-1] == "Deployed"


def test_e_op_02_pods_tolerate_the_taint_of_critical_addons(deployed):
    def uids():
        listed = deployed.get("pods", "-l", "aaq.kubevirt.io in (aaq-controller,aaq-server)")
        return {each["metadata"]["uid"]: each["status"]["phase"] for each in listed["items"]}

    deployed.wait_for(lambda: len(uids()) == 4 and set(uids().values()) == {"Running"})
    before = uids()
    other = json.dumps(pod_manifest("evicted"))
    deployed.kubectl("create", "-n", "default", "-f", "-", stdin=other)
    deployed.kubectl(
        "wait", "-n", "default", "pod/evicted", "--for=condition=Ready", "--timeout=120s"
    )

    taint = "CriticalAddonsOnly:NoExecute"
    deployed.kubectl("taint", "nodes", "--all", taint)
    try:
        # When a pod without the toleration is gone, ours would be gone too.
        deployed.kubectl("wait", "-n", "default", "pod/evicted", "--for=delete", "--timeout=120s")
        assert uids() == before
    finally:
        deployed.kubectl("taint", "nodes", "--all", f"{taint}-")


def test_e_op_05_replicas_are_restored(deployed):
    deployed.kubectl("scale", "deployment", "-n", HOME, "aaq-controller", "--replicas=10")
    deployed.wait_for(lambda: deployed.get("deployment", "aaq-controller")["spec"]["replicas"] == 2)


def test_e_op_06_the_selector_of_the_service_is_restored(deployed):
    before = deployed.get("service", "aaq-server")["spec"]["selector"]
    change = json.dumps({"spec": {"selector": {"aaq.kubevirt.io": ""}}})
    deployed.kubectl("patch", "service", "-n", HOME, "aaq-server", "--type=merge", "-p", change)

    deployed.wait_for(lambda: deployed.get("service", "aaq-server")["spec"]["selector"] == before)


def test_e_op_07_the_label_of_the_account_is_restored(deployed):
    deployed.kubectl(
        *("label", "--overwrite", "serviceaccount", "-n", HOME, "aaq-controller"),
        *("aaq.kubevirt.io=somebadvalue", "team=platform"),
    )

    def labels():
        return deployed.get("serviceaccount", "aaq-controller")["metadata"]["labels"]

    deployed.wait_for(lambda: labels()["aaq.kubevirt.io"] == "")
    assert labels()["team"] == "platform"


def test_every_object_that_is_deleted_comes_back(deployed):
    before = deployed.owned()

    for name in sorted(before):
        deployed.try_kubectl("delete", "-n", HOME, "--wait=false", name)
    deployed.wait_for(lambda: deployed.owned() == before, f"all of {before}")
    deployed.wait_deployed()


def test_a_subject_that_somebody_added_to_a_role_is_removed(deployed):
    before = deployed.get("clusterrolebinding", "aaq-controller")["subjects"]
    stranger = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "mallory"}
    change = json.dumps([{"op": "add", "path": "/subjects/-", "value": stranger}])
    deployed.kubectl("patch", "clusterrolebinding", "aaq-controller", "--type=json", "-p", change)

    deployed.wait_for(
        lambda: deployed.get("clusterrolebinding", "aaq-controller")["subjects"] == before
    )


def test_e_op_10_the_chosen_priority_class_reaches_the_pods(deployed):
    deployed.edit(priorityClass="system-node-critical")

    for label in ("aaq-controller", "aaq-server"):
        deployed.wait_for(
            lambda label=label: (
                {each.get("priorityClassName") for each in pod_specs(deployed, label)}
                == {"system-node-critical"}
            )
        )


def test_e_op_11_kubevirts_priority_class_is_used_when_it_appears(deployed):
    deployed.kubectl("create", "priorityclass", "kubevirt-cluster-critical", "--value=10000")
    try:
        for label in ("aaq-controller", "aaq-server"):
            deployed.wait_for(
                lambda label=label: (
                    {each.get("priorityClassName") for each in pod_specs(deployed, label)}
                    == {"kubevirt-cluster-critical"}
                )
            )
    finally:
        deployed.kubectl("delete", "priorityclass", "kubevirt-cluster-critical")


def webhook_selector(operator):
    found = operator.get("mutatingwebhookconfiguration", "gating-mutator")
    return found["webhooks"][0].get("namespaceSelector")


def test_e_op_12_the_selector_reaches_the_webhook(deployed):
    selector = {"matchLabels": {"namespace": "fakenamespace"}}
    deployed.edit(namespaceSelector=selector)

    deployed.wait_for(lambda: webhook_selector(deployed) == selector)


def test_e_op_13_without_a_selector_the_label_selects(deployed):
    deployed.edit(namespaceSelector={"matchLabels": {"a": "b"}})
    deployed.wait_for(lambda: webhook_selector(deployed) == {"matchLabels": {"a": "b"}})

    deployed.edit(namespaceSelector=None)

    deployed.wait_for(lambda: webhook_selector(deployed) == {"matchExpressions": [DEFAULT]})


def test_e_op_14_an_empty_selector_selects_every_namespace_but_the_spared(deployed):
    deployed.edit(namespaceSelector={})
    deployed.wait_for(lambda: webhook_selector(deployed) == {})
    deployed.wait_deployed()

    # No process answers behind the webhook: where pods are gated, they are refused.
    pod = json.dumps(pod_manifest("free", schedulerName="nobody"))
    assert deployed.try_kubectl("create", "-n", "kube-system", "-f", "-", stdin=pod).code == 0
    refused = deployed.try_kubectl("create", "-n", "default", "-f", "-", stdin=pod)
    assert "gater.cqo.kubevirt.io" in refused.err
    deployed.kubectl("delete", "pod", "-n", "kube-system", "free", "--now")


def test_e_srv_06_a_second_object_is_refused_by_a_policy(deployed):
    second = (EXAMPLES / "aaq.yaml").read_text().replace("name: aaq", "name: second", 1)
    ran = deployed.try_kubectl("create", "-f", "-", stdin=second)

    assert ran.code != 0
    assert "only a single AAQ CR instance is allowed" in ran.err


def test_the_example_with_all_fields_works(operator):
    operator.try_kubectl("delete", "aaq", "aaq", "--timeout=240s")
    operator.kubectl("create", "-f", str(EXAMPLES / "aaq-all-fields.yaml"))
    operator.wait_deployed()

    assert operator.conditions()["FieldsIgnored"] == "False"
    owned = operator.owned()
    assert any("gate-pods.bursar.io" in each for each in owned)
    assert not any("webhookconfiguration" in each for each in owned)
    operator.delete_aaq()
    assert operator.owned() == set()


def test_e_op_03_it_is_removed_and_installed_three_times(operator):
    operator.apply_aaq()
    operator.wait_deployed()
    before = operator.owned()
    for _ in range(3):
        operator.delete_aaq()
        assert operator.owned() == set()
        # The API server may know of the deleted object for a moment.
        operator.wait_for(
            lambda: not operator.try_kubectl("create", "-f", str(EXAMPLES / "aaq.yaml")).code
        )
        operator.wait_deployed()
        assert operator.owned() == before


def test_zz_deleting_the_object_frees_500_waiting_pods_and_leaves_only_quotas(operator):
    # The webhook that checks quotas has no process behind it, so the quota comes first.
    operator.try_kubectl("delete", "aaq", "aaq", "--timeout=240s")
    operator.kubectl("create", "namespace", "shop")
    quota = {
        "apiVersion": "aaq.kubevirt.io/v1alpha1",
        "kind": "ApplicationAwareResourceQuota",
        "metadata": {"name": "quota", "namespace": "shop"},
        "spec": {"hard": {"pods": "1"}},
    }
    operator.kubectl("create", "-f", "-", stdin=json.dumps(quota))
    operator.apply_aaq()
    operator.wait_deployed()
    pods = [pod_manifest(f"shop/pod-{n}", GATE, schedulerName="nobody") for n in range(500)]
    every = {"apiVersion": "v1", "kind": "List", "items": pods}
    operator.kubectl("create", "-f", "-", stdin=json.dumps(every))

    operator.delete_aaq()

    listed = json.loads(operator.kubectl("get", "pods", "-n", "shop", "-o", "json"))["items"]
    assert len(listed) == 500
    assert [each for each in listed if each["spec"].get("schedulingGates")] == []
    assert operator.owned() == set()
    assert operator.kubectl("get", "arq", "-n", "shop", "-o", "name").strip()
    assert operator.try_kubectl("get", "aaq", "-o", "name").out == ""
