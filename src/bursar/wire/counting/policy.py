"""Decoding of CountingPolicies, and of pods for their expressions."""

from collections.abc import Mapping
from typing import Final

import msgspec

from bursar.core.cel.values import Double
from bursar.core.counting.pod_body import PodBody
from bursar.core.counting.policy import PolicyMode, PolicyText
from bursar.wire.structs.body import UNREADABLE, decode_body
from bursar.wire.structs.metadata import ObjectMeta, required_name
from bursar.wire.structs.struct import Struct


class Variable(Struct):
    name: str | None = None
    expression: str | None = None


class PolicySpec(Struct):
    mode: str | None = None
    match: str | None = None
    charges: dict[str, str] | None = None
    ignore: bool | None = None
    keep_native: bool | None = None
    variables: list[Variable] | None = None


class CountingPolicy(Struct):
    metadata: ObjectMeta | None = None
    spec: PolicySpec | None = None


def decode_policy(body: bytes) -> PolicyText:
    """Decode a policy without checking it. Raises `FieldError` or another `ValueError`."""
    return to_core(decode_body(body, CountingPolicy))


def unknown_fields(spec: Mapping[str, object]) -> list[str]:
    """Fields of a spec that no policy has, such as misspelt ones. `kubectl` refuses them, too."""
    known = frozenset(PolicySpec.__struct_encode_fields__)
    found = [f"spec.{each}" for each in spec if each not in known]
    variables = spec.get("variables")
    inner = frozenset(Variable.__struct_encode_fields__)
    for at, variable in enumerate(variables if isinstance(variables, list) else ()):
        names = variable if isinstance(variable, dict) else ()
        found += [f"spec.variables[{at}].{each}" for each in names if each not in inner]
    return found


def to_core(raw: CountingPolicy) -> PolicyText:
    meta, spec = raw.metadata or ObjectMeta(), raw.spec or PolicySpec()
    return PolicyText(
        name=required_name(meta),
        uid=meta.uid or "",
        generation=meta.generation or 0,
        mode=PolicyMode.ENFORCE.value if spec.mode is None else spec.mode,
        match=spec.match or "",
        charges=spec.charges or {},
        is_ignored=bool(spec.ignore),
        keeps_native=bool(spec.keep_native),
        variables=tuple((each.name or "", each.expression or "") for each in spec.variables or ()),
    )


_PODS: Final = msgspec.json.Decoder(dict[str, object], float_hook=Double)


def read_body(body: PodBody) -> dict[str, object]:
    """The pod as values of expressions. Raises `ValueError`."""
    try:
        return _PODS.decode(body.json())
    except UNREADABLE:
        raise ValueError("its body is not a JSON object") from None
