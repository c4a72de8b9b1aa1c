"""Validation of what a node reports."""

from bursar.core.model.node import Node
from bursar.core.model.validation.node import validate_node
from support.builders.pods import parsed


def said(**lists):
    return [str(problem) for problem in validate_node(Node(name="n1", **lists))]


def test_any_name_is_accepted():
    assert said(capacity=parsed("cpu=500m gpu=1500m a/b/c=0.5")) == []


def test_amounts_are_not_negative_and_countable_things_are_whole():
    assert said(
        capacity=parsed("pods=110.5 cpu=-1"), allocatable=parsed("example.com/foo=-0.5")
    ) == [
        'status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0',
        'status.capacity.pods: Invalid value: "110500m": must be an integer',
        (
            'status.allocatable.example.com/foo: Invalid value: "-500m":'
            " must be greater than or equal to 0"
        ),
        'status.allocatable.example.com/foo: Invalid value: "-500m": must be an integer',
    ]


def test_amounts_are_rounded_before_they_are_judged():
    assert said(capacity=parsed("pods=0.1m")) == [
        'status.capacity.pods: Invalid value: "1m": must be an integer'
    ]


def test_empty_name_is_printed_as_a_subscript():
    assert said(capacity=parsed("=-1")) == [
        'status.capacity[]: Invalid value: "-1": must be greater than or equal to 0'
    ]
