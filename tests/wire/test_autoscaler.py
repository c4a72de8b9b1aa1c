"""HorizontalPodAutoscalers: what they scale, and between which numbers."""

import pytest

from bursar.wire.model.workloads.autoscaler import Autoscaler, decode_autoscaler
from bursar.wire.structs.fields import FieldError


def test_an_autoscaler_names_its_workload_and_bounds():
    value = {
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "scaleTargetRef": {"kind": "Deployment", "name": "web"},
            "minReplicas": 2,
            "maxReplicas": 9,
        },
    }

    assert decode_autoscaler(value) == Autoscaler(
        namespace="shop",
        name="web",
        target_kind="Deployment",
        target_name="web",
        minimum=2,
        maximum=9,
    )


def test_without_a_minimum_there_is_one_pod():
    found = decode_autoscaler({"spec": {"maxReplicas": 3}})

    assert (found.minimum, found.maximum) == (1, 3)
    assert decode_autoscaler({}).maximum == 1


def test_a_bound_is_a_whole_number():
    with pytest.raises(FieldError, match=r"spec\.maxReplicas"):
        decode_autoscaler({"spec": {"maxReplicas": "many"}})
