"""Expressions with known answers.

`conformance.jsonl` are the public conformance cases of CEL (github.com/google/cel-spec, Apache-2.0,
cel.dev/expr v0.25.1), without those about messages. `kubernetes.jsonl` are expressions as policies
have them, with the answers of Kubernetes' own environment for ValidatingAdmissionPolicies.
"""

import json
from pathlib import Path

from bursar.adapters.cel.language import open_language
from bursar.core.cel.types import DYN
from bursar.core.cel.values import Timestamp
from bursar.core.counting.policy import VARIABLES
from bursar.core.model.quantity import Quantity

HERE = Path(__file__).parent
LANGUAGE = open_language()
BUDGET = 1_000_000

POD = {
    "metadata": {
        "name": "nb-0",
        "namespace": "ml",
        "labels": {"app": "jupyter", "size": "3"},
        "annotations": {"n": "12", "q": "1500m"},
        "ownerReferences": [{"kind": "StatefulSet", "name": "nb", "controller": True}],
    },
    "spec": {
        "priority": 5,
        "containers": [
            {
                "name": "a",
                "args": ["x", "y", "z"],
                "resources": {"requests": {"cpu": "1500m", "memory": "1Gi"}},
            },
            {"name": "b"},
        ],
        "nodeSelector": None,
    },
}
NATIVE = {"requests.cpu": "1500m", "memory": "1Gi", "pods": "1", "requests.nvidia.com/gpu": "2"}
NOW = "2026-11-14T21:30:00Z"
NOW_NANOS = 1_794_691_800 * 10**9


def recorded(name):
    with (HERE / f"{name}.jsonl").open() as lines:
        return [json.loads(line) for line in lines]


def values():
    return {
        "object": POD,
        "namespaceObject": POD,
        "native": {name: Quantity.parse(text) for name, text in NATIVE.items()},
        "now": Timestamp(NOW_NANOS),
    }


def compiled(text, names=()):
    return LANGUAGE.compile(text, VARIABLES if not names else dict.fromkeys(names, DYN))
