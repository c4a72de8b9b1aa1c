"""Validation of the amounts that a node reports. Resource names are not checked, as upstream."""

from bursar.core.model.node import Node
from bursar.core.model.problem import Problem
from bursar.core.model.resources import rounded_to_milli
from bursar.core.model.validation.requirements import validate_amount


def validate_node(node: Node) -> tuple[Problem, ...]:
    """Check capacity and allocatable: no amount is negative, countable resources are whole."""
    problems: list[Problem] = []
    for side, amounts in (("capacity", node.capacity), ("allocatable", node.allocatable)):
        for name, amount in sorted(rounded_to_milli(amounts).items(), key=lambda item: item[0]):
            # Upstream prints a step without a name as an empty subscript.
            step = f".{name}" if name else "[]"
            problems += validate_amount(name, amount, f"status.{side}{step}")
    return tuple(problems)
