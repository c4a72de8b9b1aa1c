"""Pods as an API server sends them: 3 to 9 KB each, as various as those of a busy cluster."""

import json
from collections.abc import Iterator
from random import Random

PER_WORKLOAD = 8
NODES = 2_000
NAMESPACES = 300


def pod_bodies(count: int, *, per_workload: int = PER_WORKLOAD, seed: int = 1) -> Iterator[bytes]:
    """One by one, so that the caller need not hold them all."""
    random = Random(seed)  # noqa: S311 - a seed, not a secret
    number = 0
    while number < count:
        workload = _workload(random, number)
        for replica in range(min(per_workload, count - number)):
            yield json.dumps(
                _pod(random, workload, number, replica), separators=(",", ":")
            ).encode()
            number += 1


def _workload(random: Random, number: int) -> dict:
    name = f"{random.choice(['checkout', 'search', 'billing-api', 'ingest', 'ml-train'])}-{number}"
    containers = [_container(random, i) for i in range(random.choice([1, 1, 2, 3]))]
    return {
        "name": name,
        "namespace": f"team-{random.randrange(NAMESPACES)}",
        "kind": random.choices(["ReplicaSet", "StatefulSet", "Job"], [7, 2, 1])[0],
        "hash": f"{random.getrandbits(40):010x}",
        "containers": containers,
        "init": [_container(random, 9)] if random.random() < 0.3 else [],
        "priority": random.choice([0, 0, 0, 1_000_000, 100_000]),
        "gated": random.random() < 0.05,
        "owned": [_managed(manager, containers) for manager in ("controller", "kubelet")],
    }


def _container(random: Random, index: int) -> dict:
    cpu = random.choice(["50m", "100m", "250m", "500m", "1", "2", f"{random.randrange(1, 4000)}m"])
    memory = random.choice(["64Mi", "128Mi", "512Mi", "1Gi", f"{random.randrange(1, 9000)}Mi"])
    probe = {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10}
    return {
        "name": f"container-{index}",
        "image": f"registry.example.com/team/app-{random.randrange(500)}:v1.{random.randrange(99)}",
        "env": [
            {"name": f"SETTING_{i}", "value": "x" * random.randrange(5, 60)}
            for i in range(random.randrange(4, 16))
        ],
        "resources": {
            "limits": {"cpu": cpu, "memory": memory},
            "requests": {"cpu": cpu, "memory": memory},
        },
        "livenessProbe": probe,
        "readinessProbe": probe,
        "volumeMounts": [{"name": "kube-api-access", "mountPath": "/var/run/secrets/x"}],
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }


def _managed(manager: str, containers: list[dict]) -> dict:
    fields = {
        f'k:{{"name":"{each["name"]}"}}': {
            ".": {}, "f:image": {}, "f:name": {}, "f:resources": {}, "f:env": {},
            "f:imagePullPolicy": {}, "f:terminationMessagePath": {},
        }
        for each in containers
    }  # fmt: skip
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2026-01-02T03:04:05Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:labels": {".": {}}}, "f:spec": {"f:containers": fields}},
    }


def _pod(random: Random, workload: dict, number: int, replica: int) -> dict:
    name = f"{workload['name']}-{workload['hash']}-{random.getrandbits(25):05x}"
    labels = {"app.kubernetes.io/name": workload["name"], "pod-template-hash": workload["hash"]}
    if workload["kind"] == "StatefulSet":
        name = f"{workload['name']}-{replica}"
        labels |= {"statefulset.kubernetes.io/pod-name": name}
    uid = f"{random.getrandbits(128):032x}"
    containers = workload["containers"]
    spec = {
        "containers": containers,
        "nodeName": "" if workload["gated"] else f"node-{random.randrange(NODES):05d}",
        "priority": workload["priority"],
        "restartPolicy": "Always",
        "serviceAccountName": "default",
        "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}],
        "volumes": [{"name": "kube-api-access", "projected": {"defaultMode": 420}}],
    }
    if workload["init"]:
        spec["initContainers"] = workload["init"]
    if workload["gated"]:
        spec["schedulingGates"] = [{"name": "example.com/gate"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": workload["namespace"],
            "uid": f"{uid[:8]}-{uid[8:12]}-{uid[12:16]}-{uid[16:20]}-{uid[20:]}",
            "resourceVersion": str(90_000_000 + number),
            "creationTimestamp": f"2026-01-09T03:{random.randrange(60):02d}:{number % 60:02d}Z",
            "labels": labels,
            "annotations": {"example.com/config": "x" * random.randrange(20, 400)},
            "ownerReferences": [{"kind": workload["kind"], "name": workload["name"], "uid": uid}],
            "managedFields": workload["owned"],
        },
        "spec": spec,
        "status": _status(containers, is_gated=workload["gated"]),
    }


def _status(containers: list[dict], *, is_gated: bool) -> dict:
    if is_gated:
        return {"phase": "Pending", "qosClass": "Guaranteed"}
    kinds = ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {
        "phase": "Running",
        "podIP": "10.1.2.3",
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"}
            for kind in kinds
        ],
        "containerStatuses": [
            {
                "name": each["name"],
                "ready": True,
                "restartCount": 0,
                "image": each["image"],
                "state": {"running": {"startedAt": "2026-01-02T03:04:05Z"}},
                "allocatedResources": each["resources"]["requests"],
                "resources": each["resources"],
            }
            for each in containers
        ],
    }
