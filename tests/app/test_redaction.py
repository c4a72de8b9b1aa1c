"""Objects for bug reports: amounts and names are kept, what may be secret is not."""

import json

from bursar.app.reports.anonymity import Anonymous
from bursar.app.reports.redaction import REMOVED, annotations_that_select, redacted

SECRET = "hunter2"  # noqa: S105 - it is to be removed
POD_SPEC = {
    "containers": [
        {
            "name": "app",
            "image": "example.com/app:1",
            "args": [f"--password={SECRET}"],
            "command": ["sh", "-c", SECRET],
            "env": [
                {"name": "PASSWORD", "value": SECRET},
                {"name": "FROM", "valueFrom": {"secretKeyRef": {"name": "s", "key": SECRET}}},
            ],
            "envFrom": [{"secretRef": {"name": SECRET}}],
            "livenessProbe": {"httpGet": {"httpHeaders": [{"name": "a", "value": SECRET}]}},
            "lifecycle": {"preStop": {"exec": {"command": [SECRET]}}},
            "resources": {"requests": {"cpu": "100m"}},
        }
    ],
    "initContainers": [{"name": "init", "args": [SECRET]}],
    "imagePullSecrets": [{"name": SECRET}],
    "nodeName": "worker",
    "volumes": [
        {"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}},
        {"name": "remote", "csi": {"driver": "d", "volumeAttributes": {"key": SECRET}}},
        {"name": "claim", "persistentVolumeClaim": {"claimName": "c"}},
    ],
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "web-0",
        "namespace": "shop",
        "labels": {"app": "web", "statefulset.kubernetes.io/pod-name": "web-0"},
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": SECRET,
            "example.com/token": SECRET,
            "example.com/note": SECRET,
            "bursar.io/order": "7",
            "bursar.io/token": SECRET,
        },
        "managedFields": [{"manager": SECRET}],
        "ownerReferences": [{"kind": "StatefulSet", "name": "web", "controller": True}],
    },
    "spec": POD_SPEC,
    "status": {
        "phase": "Running",
        "message": "on worker",
        "podIP": "10.0.0.1",
        "containerStatuses": [
            {
                "name": "app",
                "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
                "lastState": {"terminated": {"reason": "Error", "message": SECRET}},
            }
        ],
    },
}


def test_a_pod_keeps_its_amounts_and_names_and_nothing_that_may_be_secret():
    kept = redacted(POD)

    assert kept is not None
    assert SECRET not in json.dumps(kept)
    assert kept["metadata"]["annotations"] == {"bursar.io/order": "7"}
    (app,) = kept["spec"]["containers"]
    assert app == {
        "name": "app",
        "image": "example.com/app:1",
        "args": [REMOVED],
        "command": [REMOVED],
        "env": [{"name": "PASSWORD", "value": REMOVED}, {"name": "FROM", "value": REMOVED}],
        "resources": {"requests": {"cpu": "100m"}},
    }
    assert kept["spec"]["volumes"] == [
        {"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}},
        {"name": "remote", "csi": {}},
        {"name": "claim", "persistentVolumeClaim": {"claimName": "c"}},
    ]
    (status,) = kept["status"]["containerStatuses"]
    assert status["state"] == {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    assert status["lastState"] == {"terminated": {"reason": "Error", "message": REMOVED}}


def test_templates_of_workloads_are_treated_like_pods():
    template = {"metadata": {"labels": {"a": "b"}}, "spec": POD_SPEC}
    workloads = [
        {"kind": "Deployment", "metadata": {}, "spec": {"replicas": 2, "template": template}},
        {"kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": template}}}},
        {"kind": "PodTemplate", "metadata": {}, "template": {"spec": POD_SPEC}},
    ]
    kept = [redacted(each) for each in workloads]

    assert SECRET not in json.dumps(kept)
    assert kept[0]["spec"]["replicas"] == 2
    assert kept[0]["spec"]["template"]["metadata"] == {"labels": {"a": "b"}}


def test_secrets_and_data_are_left_out():
    assert redacted({"kind": "Secret", "data": {"a": SECRET}}) is None
    assert redacted({"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": SECRET}}) == {
        "kind": "ConfigMap",
        "metadata": {"name": "c"},
    }


def test_annotations_that_nodes_show_and_quotas_select_by_are_kept():
    quota = {"spec": {"selector": {"annotations": {"example.com/team": "blue"}}}}
    keys = annotations_that_select([quota, {"spec": {}}])
    annotations = {"example.com/team": "blue", "example.com/other": "x"}

    namespace = redacted({"kind": "Namespace", "metadata": {"annotations": annotations}}, keys)
    node = redacted({"kind": "Node", "metadata": {"annotations": annotations}}, keys)

    assert namespace["metadata"]["annotations"] == {"example.com/team": "blue"}
    assert node["metadata"]["annotations"] == annotations


def test_odd_shapes_are_endured():
    odd = {"kind": "Pod", "metadata": 1, "spec": {"containers": 5, "volumes": [3]}, "status": None}

    kept = redacted(odd)

    assert kept == {
        "kind": "Pod",
        "metadata": {},
        "spec": {"containers": [], "volumes": []},
        "status": {},
    }
    assert Anonymous().objects([{"kind": "Pod", "metadata": 1}]) == [{"kind": "Pod", "metadata": 1}]


def test_the_same_object_gets_the_same_other_name_everywhere():
    term = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["worker"]}
    pod = {**POD, "spec": {**POD_SPEC, "affinity": [term], "namespaces": ["shop", "kube-system"]}}
    node = {
        "kind": "Node",
        "metadata": {"name": "worker", "labels": {"kubernetes.io/hostname": "worker"}},
        "spec": {"providerID": "cloud:///worker"},
    }
    namespace = {
        "kind": "Namespace",
        "metadata": {"name": "shop", "labels": {"kubernetes.io/metadata.name": "shop"}},
    }
    values = [each for value in (pod, node, namespace) if (each := redacted(value))]

    web, worker, shop = Anonymous().objects(values)

    text = json.dumps([web, worker, shop])
    assert all(name not in text for name in ("shop", "worker", "web-0", "10.0.0.1", "cloud"))
    assert web["metadata"]["name"] == "pod-1"
    assert web["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] == "pod-1"
    assert web["metadata"]["namespace"] == shop["metadata"]["name"] == "namespace-1"
    assert web["metadata"]["ownerReferences"][0]["name"] == "owner-1"
    assert web["spec"]["nodeName"] == worker["metadata"]["name"] == "node-1"
    assert web["spec"]["affinity"][0]["values"] == ["node-1"]
    assert web["spec"]["namespaces"] == ["namespace-1", "kube-system"]
