"""Values of expressions with their types, as the oracle and the conformance cases write them."""

from bursar.core.cel.types import CelType
from bursar.core.cel.values import Duration, Maybe, Timestamp
from bursar.core.model.quantity import Quantity

NANOS = 10**9


def value_of(typed):  # noqa: PLR0911 - by type
    """From `{"int": 1}` to 1. Types that expressions do not support become a text."""
    ((kind, value),) = typed.items()
    match kind:
        case "list":
            return [value_of(each) for each in value]
        case "map":
            return {value_of(key): value_of(each) for key, each in value}
        case "type":
            return CelType(value)
        case "timestamp":
            return Timestamp(value[0] * NANOS + value[1])
        case "duration":
            return Duration(value[0] * NANOS + value[1])
        case "quantity":
            return Quantity.parse(value)
        case "none":
            return Maybe(None, is_present=False)
        case "optional":
            return Maybe(value_of(value))
        case "null" | "bool" | "int" | "string":
            return value
    return f"unsupported: {kind}"
