"""What a metrics server reports, and which object controls which."""

import json

import pytest

from bursar.wire.model.workloads.controllers import Controlled, controlled_objects
from bursar.wire.usage import decode_usage
from support.builders.pods import texts


def test_a_node_has_its_usage():
    usage = decode_usage(
        b'{"metadata":{"name":"n"},"usage":{"cpu":"12345678n","memory":"1000Ki"},"window":"20s"}'
    )

    assert (usage.namespace, usage.name) == ("", "n")
    assert texts(usage.amounts) == {"cpu": "12345678n", "memory": "1000Ki"}


def test_a_pod_uses_what_its_containers_use():
    containers = [
        {"name": "a", "usage": {"cpu": "1m", "memory": "1Mi"}},
        {"name": "b", "usage": {"cpu": "2m"}},
        {"name": "c"},
    ]
    body = {"metadata": {"namespace": "shop", "name": "web"}, "containers": containers}
    usage = decode_usage(json.dumps(body).encode())

    assert (usage.namespace, usage.name) == ("shop", "web")
    assert texts(usage.amounts) == {"cpu": "3m", "memory": "1Mi"}


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b'{"usage":{}}', "metadata.name"),
        (b'{"metadata":{"name":"n"},"usage":{"cpu":"much"}}', r"usage\[cpu\]"),
        (
            b'{"metadata":{"name":"n"},"containers":[{"usage":{"cpu":"x"}}]}',
            r"containers\[0\].usage\[cpu\]",
        ),
        (b'{"metadata":{"name":"n"},"usage":3}', "usage"),
    ],
)
def test_an_error_names_the_field(body, problem):
    with pytest.raises(ValueError, match=problem):
        decode_usage(body)


def test_controllers_are_told_of_objects_other_than_pods():
    owners = [
        {"kind": "Gardener", "name": "other"},
        {"kind": "CronJob", "name": "report", "controller": True},
    ]
    values = [
        {"kind": "Job", "metadata": {"name": "report-1", "ownerReferences": owners}},
        {"kind": "Pod", "metadata": {"name": "report-1-x", "ownerReferences": owners}},
        {"kind": "Job", "metadata": {"name": "lonely"}},
        {"kind": "Job"},
    ]

    assert list(controlled_objects(values)) == [
        Controlled("", "Job", "report-1", "CronJob", "report")
    ]
