"""A CountingPolicy: which pods it counts, and what it charges for them, as expressions."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

from bursar.core.cel.code import Frame
from bursar.core.cel.expression import CompileError, CostError, EvalError, Expression, Language
from bursar.core.cel.types import BOOL, DYN, INT, QUANTITY, STRING, TIMESTAMP, CelType, map_of
from bursar.core.model.numbers.int64 import INT64_MAX
from bursar.core.model.quantity import Quantity, QuantityError
from bursar.core.model.resources import ResourceList

BUDGET: Final = 100_000
"""Steps that one policy may take for one pod: some ten milliseconds."""
CHARGES_MAX: Final = 32
VARIABLES_MAX: Final = 32
NOW: Final = "now"
NAMESPACE: Final = "namespaceObject"
NOW_STEP_S: Final = 15 * 60
"""`now` is the start of the present quarter of an hour. Days of every time zone start at one."""

VARIABLES: Final[Mapping[str, CelType]] = MappingProxyType({
    "object": DYN,
    NAMESPACE: DYN,
    "native": map_of(STRING, QUANTITY),
    NOW: TIMESTAMP,
})  # fmt: skip
"""What expressions can name: the pod, its namespace, what it costs natively, and the time."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_RESOURCE: Final = re.compile(
    r"(?:[a-zA-Z0-9](?:[-a-zA-Z0-9_.]{0,251}[a-zA-Z0-9])?/)?"
    r"[a-zA-Z0-9](?:[-a-zA-Z0-9_.]{0,61}[a-zA-Z0-9])?"
)

FAULTS: Final = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError)
"""What a mistake in the evaluator of expressions would raise."""


class PolicyMode(Enum):
    ENFORCE = "Enforce"
    SHADOW = "Shadow"
    """The policy is computed and reported, but charges nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyText:
    """A policy as its author wrote it. Nothing in it has been checked."""

    name: str
    uid: str = ""
    generation: int = 0
    mode: str = PolicyMode.ENFORCE.value
    match: str = ""
    charges: Mapping[str, str] = field(default_factory=dict)
    is_ignored: bool = False
    """`ignore: true`: the pods that match cost nothing."""
    keeps_native: bool = False
    """`keepNative: true`: names that no policy charges are charged as Kubernetes counts them."""
    variables: tuple[tuple[str, str], ...] = ()
    """Names and expressions, in the order of the author."""


class PolicyProblem(NamedTuple):
    """Why a policy is not valid."""

    field: str
    """The path of the field, such as `spec.charges["instances/notebook"]`."""
    message: str
    """With line and column, if it is about an expression."""
    excerpt: str = ""
    """The line of the expression with a caret at the error."""

    @property
    def text(self) -> str:
        return f"{self.field}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A policy that was compiled. Parts of it may be invalid."""

    text: PolicyText
    mode: PolicyMode
    match: Expression | None
    """None if the match is invalid: then the policy counts no pod."""
    charges: Mapping[str, Expression]
    problems: tuple[PolicyProblem, ...]
    uses: frozenset[str]
    """The variables that its expressions name."""


class Charged(NamedTuple):
    amounts: ResourceList


class Failed(NamedTuple):
    """The policy counts the pod, but has no amounts for it."""

    detail: str


def compile_policy(text: PolicyText, language: Language) -> Policy:
    """Check and compile a policy. `problems` says what is wrong with it."""
    compiling = _Compiling(language)
    mode = _mode(text.mode, compiling.problems)
    compiling.add_variables(text.variables)
    match = compiling.expression("spec.match", text.match, (BOOL,), "true or false")
    charges = compiling.charges(text)
    valid = (*charges.values(), *(() if match is None else (match,)))
    return Policy(
        text=text,
        mode=mode,
        match=match,
        charges=charges,
        problems=tuple(compiling.problems),
        uses=frozenset(name for each in valid for name in each.variables),
    )


def _mode(text: str, problems: list[PolicyProblem]) -> PolicyMode:
    for each in PolicyMode:
        if each.value == text:
            return each
    known = ", ".join(each.value for each in PolicyMode)
    problems.append(PolicyProblem("spec.mode", f"{text!a} is not one of: {known}"))
    # A mode that cannot be read is the one that changes no bill.
    return PolicyMode.SHADOW


class _Compiling:
    def __init__(self, language: Language) -> None:
        self._language = language
        self._computed: dict[str, Expression] = {}
        self.problems: Final[list[PolicyProblem]] = []

    def add_variables(self, variables: tuple[tuple[str, str], ...]) -> None:
        if len(variables) > VARIABLES_MAX:
            message = f"{len(variables)} variables; at most {VARIABLES_MAX} are accepted"
            self.problems.append(PolicyProblem("spec.variables", message))
        for at, (name, text) in enumerate(variables[:VARIABLES_MAX]):
            field_path = f"spec.variables[{at}]"
            full = f"variables.{name}"
            if not _NAME.fullmatch(name):
                message = f"{name[:64]!a} is not the name of a variable"
                self.problems.append(PolicyProblem(f"{field_path}.name", message))
            elif full in self._computed:
                self.problems.append(PolicyProblem(f"{field_path}.name", f"{name} exists already"))
            else:
                found = self.expression(f"{field_path}.expression", text, (), "")
                if found is not None:
                    self._computed[full] = found

    def charges(self, text: PolicyText) -> dict[str, Expression]:
        if text.is_ignored == bool(text.charges):
            message = "give either charges or ignore: true, not both and not neither"
            self.problems.append(PolicyProblem("spec.charges", message))
        if text.is_ignored and text.keeps_native:
            message = "a policy that ignores pods cannot keep what they cost natively"
            self.problems.append(PolicyProblem("spec.keepNative", message))
        if len(text.charges) > CHARGES_MAX:
            message = f"{len(text.charges)} names; at most {CHARGES_MAX} are accepted"
            self.problems.append(PolicyProblem("spec.charges", message))
        found: dict[str, Expression] = {}
        for name, expression in sorted(text.charges.items())[:CHARGES_MAX]:
            field_path = f'spec.charges["{name[:320]}"]'
            if not _RESOURCE.fullmatch(name):
                message = "this is not the name of a resource"
                self.problems.append(PolicyProblem(field_path, message))
                continue
            kinds = (INT, QUANTITY, STRING)
            amount = self.expression(field_path, expression, kinds, "an int or a quantity")
            if amount is not None:
                found[name] = amount
        return found

    def expression(
        self, path: str, text: str, kinds: tuple[CelType, ...], wanted: str
    ) -> Expression | None:
        try:
            found = self._language.compile(text, VARIABLES, self._computed)
        except CompileError as error:
            self.problems.append(PolicyProblem(path, str(error), error.excerpt))
            return None
        if kinds and found.type not in (*kinds, DYN):
            message = f"1:1: the expression gives {found.type}; it must give {wanted}"
            self.problems.append(PolicyProblem(path, message))
            return None
        return found


# ------------------------------------------------------------------ evaluation


def evaluate(policy: Policy, values: Mapping[str, object]) -> Charged | Failed | None:
    """What a policy charges for a pod; None if the pod is not one that it counts."""
    if policy.match is None:
        return None
    frame = Frame(dict(values), BUDGET)
    where, text = "match", policy.text.match
    try:
        if not _is_true(policy.match.code(frame)):
            return None
        if policy.problems:
            return Failed(f"the policy is not valid: {policy.problems[0].text}")
        amounts: dict[str, Quantity] = {}
        for name, expression in policy.charges.items():
            where, text = name, expression.text
            amounts[name] = _amount(expression.code(frame))
    except (EvalError, CostError) as error:
        return Failed(f"{where}: {_short(text)}: {_short(str(error))}")
    except FAULTS as error:
        # A fault of ours must hold this pod alone, not end the controller.
        return Failed(f"{where}: {_short(text)}: internal error: {error!r:.200}")
    return Charged(amounts)


def _is_true(value: object) -> bool:
    if value is True or value is False:
        return value is True
    raise EvalError("the expression gives neither true nor false")


def _amount(value: object) -> Quantity:
    if type(value) is int:
        amount = Quantity.of(value)
    elif isinstance(value, Quantity):
        amount = value
    elif isinstance(value, str):
        try:
            amount = Quantity.parse(value)
        except QuantityError as error:
            raise EvalError(f"{_short(value)!a}: {error}") from None
    else:
        raise EvalError("the expression gives neither an int nor a quantity")
    if amount.is_negative or amount.whole_units > INT64_MAX:
        raise EvalError(f"it gives {_short(str(amount))}, which no pod can cost")
    return amount


_SHORT: Final = 200


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _SHORT else f"{flat[:_SHORT]}..."
