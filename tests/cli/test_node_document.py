"""The node report as data: every quantity as its text, every percentage as a number."""

import json

from bursar.app.reports.node import node_report
from bursar.cli.reports.node_document import as_dict
from support.builders.random_objects import as_node, as_pod

NODE = {
    "metadata": {"name": "n"},
    "status": {
        "capacity": {"cpu": "2", "pods": "10"},
        "allocatable": {"cpu": "1800m", "memory": "1Gi", "pods": "10", "nvidia.com/gpu": "4"},
    },
}
POD = {
    "metadata": {"name": "p", "namespace": "d"},
    "spec": {
        "nodeName": "n",
        "containers": [
            {"name": "c", "resources": {"requests": {"cpu": "0.2"}, "limits": {"gpu": "1"}}}
        ],
    },
}
LATE = {
    "metadata": {"name": "late", "namespace": "d"},
    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]},
}


def test_the_document_holds_all_there_is_to_say():
    document = as_dict(node_report(as_node(NODE), [as_pod(POD), as_pod(LATE)]))

    nothing = {"requests": "0", "limits": "0", "requestsPercent": 0, "limitsPercent": 0}
    assert json.loads(json.dumps(document)) == {
        "name": "n",
        "valid": True,
        "errors": [],
        "capacity": {"cpu": "2", "pods": "10"},
        "allocatable": {"cpu": "1800m", "memory": "1Gi", "pods": "10", "nvidia.com/gpu": "4"},
        "pods": [
            {
                "namespace": "d",
                "name": "p",
                "requests": {"cpu": "200m", "memory": "0"},
                "limits": {"cpu": "0", "memory": "0", "gpu": "1"},
                "requestsPercent": {"cpu": 11, "memory": 0},
                "limitsPercent": {"cpu": 0, "memory": 0, "gpu": None},
            }
        ],
        "allocated": {
            "cpu": {**nothing, "requests": "200m", "requestsPercent": 11},
            "memory": nothing,
            "ephemeral-storage": {**nothing, "requestsPercent": None, "limitsPercent": None},
            "nvidia.com/gpu": nothing,
        },
        "stillFits": {
            "cpu": "1600m",
            "memory": "1Gi",
            "nvidia.com/gpu": "4",
            "pods": "9",
        },
        "waiting": [
            {
                "namespace": "d",
                "name": "late",
                "fits": False,
                "reasons": ["Insufficient cpu"],
                "missing": {
                    "cpu": {"reason": "Insufficient cpu", "requested": "2", "free": "1600m"}
                },
            }
        ],
    }
