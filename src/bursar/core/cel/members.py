"""Fields, indexes and tests for presence."""

from bursar.core.cel.code import Code, Frame
from bursar.core.cel.errors import EvalError
from bursar.core.cel.types import DYN, INT, STRING, CelType, fits, optional_of
from bursar.core.cel.values import NOTHING, Maybe, lookup_key, type_of


def member_type(held: CelType, index: CelType | None) -> CelType | None:
    """The type of a member; None if values of that type have none. A field has no index type."""
    if held.name == "optional_type":
        if index not in (None, DYN, STRING, INT):
            return None
        inner = member_type(held.params[0], index)
        return None if inner is None else optional_of(inner)
    if held == DYN:
        return DYN
    if held.name == "map" and (index is None or fits(held.params[0], index, {})):
        return held.params[1]
    if held.name == "list" and index is not None and fits(INT, index, {}):
        return held.params[0]
    return None


def select(operand: Code, field: str) -> Code:
    def code(frame: Frame) -> object:
        held = operand(frame)
        if type(held) is dict:
            try:
                return held[field]
            except KeyError:
                raise EvalError(f"no such key: {field}") from None
        if type(held) is Maybe:
            return _optional(held, field)
        raise EvalError(f"no such key: {field} (the value is of type {type_of(held)})")

    return code


def select_optional(operand: Code, field: str) -> Code:
    return lambda frame: _optional(_wrapped(operand(frame)), field)


def index(operand: Code, key: Code) -> Code:
    def code(frame: Frame) -> object:
        held = operand(frame)
        if type(held) is Maybe and not held.is_present:
            return held
        wanted = key(frame)
        if type(held) is Maybe:
            return _optional(held, wanted)
        found = _member(held, wanted)
        if found.is_present:
            return found.value
        if type(held) is list:
            raise EvalError(f"index out of bounds: {wanted}")
        raise EvalError(f"no such key: {wanted}")

    return code


def index_optional(operand: Code, key: Code) -> Code:
    return lambda frame: _optional(_wrapped(operand(frame)), key(frame))


def has(operand: Code, field: str) -> Code:
    def code(frame: Frame) -> object:
        held = operand(frame)
        if type(held) is dict:
            return field in held
        # As in Kubernetes, this is false for a value that has no fields.
        return type(held) is Maybe and _optional(held, field).is_present

    return code


def _wrapped(value: object) -> Maybe:
    return value if isinstance(value, Maybe) else Maybe(value)


def _optional(held: Maybe, key: object) -> Maybe:
    """A member of a value that has none is absent as well, as in Kubernetes."""
    if type(key) not in (str, int, bool):
        raise EvalError(f"invalid qualifier type: {type_of(key)}")
    return _member(held.value, key) if isinstance(held.value, dict | list) else NOTHING


def _member(held: object, key: object) -> Maybe:
    if isinstance(held, dict):
        wanted = lookup_key(key)
        return Maybe(held[wanted]) if wanted in held else NOTHING
    if isinstance(held, list):
        if type(key) is not int:
            raise EvalError(f"unsupported index type {type_of(key)} in list")
        return Maybe(held[key]) if 0 <= key < len(held) else NOTHING
    raise EvalError(f"no such overload: {type_of(held)}[{type_of(key)}]")
