"""Decoding of LimitRanges, RuntimeClasses and PriorityClasses."""

import pytest

from bursar.core.model.admission.classes import PriorityClass, RuntimeClass
from bursar.core.model.admission.limit_range import LimitRange, LimitRangeItem
from bursar.core.model.pod import Toleration
from bursar.core.model.quantity import Quantity
from bursar.wire.model.admission_policies import decode_policy
from bursar.wire.structs.fields import FieldError

ONE = Quantity.parse("1")


def test_a_limit_range():
    item = {"type": "Pod", "max": {"cpu": 1}, "maxLimitRequestRatio": {"cpu": "1"}}
    raw = {"metadata": {"name": "a", "namespace": "n"}, "spec": {"limits": [item, {}]}}

    assert decode_policy("LimitRange", raw) == LimitRange(
        namespace="n",
        name="a",
        items=(
            LimitRangeItem(type="Pod", max={"cpu": ONE}, max_ratio={"cpu": ONE}),
            LimitRangeItem(type=""),
        ),
    )
    empty = LimitRange(namespace="", name="a")
    assert decode_policy("LimitRange", {"metadata": {"name": "a"}}) == empty


def test_a_runtime_class():
    raw = {
        "metadata": {"name": "a"},
        "overhead": {"podFixed": {"cpu": "1"}},
        "scheduling": {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "k"}]},
    }

    assert decode_policy("RuntimeClass", raw) == RuntimeClass(
        name="a",
        overhead={"cpu": ONE},
        node_selector={"a": "b"},
        tolerations=(Toleration(key="k"),),
    )
    assert decode_policy("RuntimeClass", {"metadata": {"name": "a"}}) == RuntimeClass(name="a")


def test_a_priority_class():
    raw = {"metadata": {"name": "a"}, "value": 5, "globalDefault": True}

    found = decode_policy("PriorityClass", {**raw, "preemptionPolicy": "Never"})
    assert found == PriorityClass(name="a", value=5, is_default=True, preemption_policy="Never")
    assert decode_policy("PriorityClass", {"metadata": {"name": "a"}}).value == 0


@pytest.mark.parametrize("kind", ["LimitRange", "RuntimeClass", "PriorityClass"])
def test_an_object_without_a_name_is_refused(kind):
    with pytest.raises(FieldError):
        decode_policy(kind, {})


def test_an_amount_that_cannot_be_read_is_named():
    raw = {"metadata": {"name": "a"}, "spec": {"limits": [{"min": {"cpu": "x"}}]}}

    with pytest.raises(FieldError, match=r"spec\.limits\[0\]\.min\[cpu\]"):
        decode_policy("LimitRange", raw)
