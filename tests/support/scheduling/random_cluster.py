"""A random cluster for the scheduler: nodes, pods on them, and pods that want a place.

No controllers run there, so nodes and pods stay as they were made.
"""

from random import Random
from typing import Any

Raw = dict[str, Any]

ZONES = ("a", "b", "c")
APPS = ("web", "db", "job")
NAMESPACES = {"fit-one": {"team": "one"}, "fit-two": {"team": "two"}}
PEACEFUL = "high-without-preemption"
PRIORITIES = {"low": 10, "high": 1000, PEACEFUL: 1000}
TAINTS = (
    {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"},
    {"key": "maintenance", "effect": "NoExecute"},
)


def a_node(rng: Random, number: int) -> Raw:
    """A small node. The first ones have something against pods, whatever the others have."""
    name = f"node-{number:02}"
    labels = {"kubernetes.io/hostname": name, "pool": rng.choice(["x", "y"])}
    if rng.randrange(5):
        labels["zone"] = rng.choice(ZONES)
    amounts = {
        "cpu": rng.choice(["2", "4", "3920m"]),
        "memory": rng.choice(["4Gi", "8Gi"]),
        "ephemeral-storage": "20Gi",
        "pods": "1" if number in {3, 4} else "110",
    }
    if rng.randrange(3) == 0:
        amounts["example.com/foo"] = rng.choice(["1", "2"])
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "taints": [TAINTS[number % 2]] if number in {1, 2} else [],
            "unschedulable": number == 0,
        },
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def an_assigned_pod(rng: Random, node: str, number: int) -> Raw:
    pod = _a_pod(rng, f"{node}-{number}", rng.choice(["200m", "500m", "1"]), "512Mi")
    pod["spec"] |= {"nodeName": node, "priorityClassName": rng.choice(["low", "low", "high"])}
    return pod


def a_waiting_pod(rng: Random, name: str) -> Raw:
    """A pod that asks for much, or is particular about where it goes."""
    pod = _a_pod(
        rng,
        name,
        rng.choice(["100m", "100m", "100m", "1500m", "3", "9"]),
        rng.choice(["64Mi", "64Mi", "64Mi", "3Gi", "7Gi", "90Gi"]),
    )
    spec = pod["spec"]
    spec["priorityClassName"] = rng.choice(["low", "high"])
    extra = rng.choice([{}, {}, {"example.com/foo": "1"}, {"example.com/foo": "9"}])
    resources = spec["containers"][0]["resources"]
    resources["requests"] |= extra
    resources["limits"] = extra
    if rng.randrange(3) == 0:
        spec["nodeSelector"] = rng.choice([{"zone": "a"}, {"pool": "x"}, {"zone": "nowhere"}])
    if rng.randrange(3) == 0:
        spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
    if rng.randrange(3) == 0:
        spec["topologySpreadConstraints"] = [_spread(rng)]
    affinity = spec.setdefault("affinity", {})
    if rng.randrange(4) == 0:
        affinity["podAffinity"] = _terms(rng)
    if rng.randrange(5) == 0:
        affinity["nodeAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [_node_term(rng)]
            }
        }
    return pod


def _a_pod(rng: Random, name: str, cpu: str, memory: str) -> Raw:
    container: Raw = {
        "name": "c",
        "image": "i",
        "resources": {"requests": {"cpu": cpu, "memory": memory}},
    }
    if rng.randrange(4) == 0:
        container["ports"] = [
            {"containerPort": 80, "hostPort": 80, "protocol": rng.choice(["TCP", "UDP"])}
        ]
    spec: Raw = {"containers": [container], "terminationGracePeriodSeconds": 0}
    if rng.randrange(2) == 0:
        spec["affinity"] = {"podAntiAffinity": _terms(rng)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": rng.choice(sorted(NAMESPACES)),
            "labels": {"app": rng.choice(APPS)},
        },
        "spec": spec,
    }


def _terms(rng: Random) -> Raw:
    term: Raw = {
        "topologyKey": rng.choice(["zone", "kubernetes.io/hostname"]),
        "labelSelector": {"matchLabels": {"app": rng.choice(APPS)}},
    }
    match rng.randrange(4):
        case 0:
            term["namespaceSelector"] = {"matchLabels": {"team": rng.choice(["one", "two"])}}
        case 1:
            term["namespaces"] = [rng.choice(sorted(NAMESPACES))]
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def _spread(rng: Random) -> Raw:
    constraint: Raw = {
        "topologyKey": rng.choice(["zone", "kubernetes.io/hostname"]),
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": rng.choice(APPS)}},
    }
    if rng.randrange(3) == 0:
        constraint["minDomains"] = rng.choice([3, 6])
    if rng.randrange(3) == 0:
        constraint["nodeTaintsPolicy"] = "Honor"
    if rng.randrange(3) == 0:
        constraint["matchLabelKeys"] = ["app"]
        constraint["labelSelector"] = {}
    return constraint


def _node_term(rng: Random) -> Raw:
    if rng.randrange(2):
        name = rng.choice(["node-00", "node-01", "elsewhere"])
        return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
    operator = rng.choice(["In", "NotIn"])
    return {"matchExpressions": [{"key": "zone", "operator": operator, "values": ["a", "b"]}]}
