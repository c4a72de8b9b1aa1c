"""A policy that refuses the quotas that the webhook refuses, for clusters without the webhook.

The webhook asks the API server whether it would accept a ResourceQuota with the same spec. A policy
cannot ask, so it has the API server's rules as CEL expressions (`core/quota/validation` has them as
functions). A spec that stays as it was is not validated again: a quota that was stored before the
policy must still be deletable.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from bursar.app.install.documents import Document, admission_policy, rule
from bursar.app.quota.kinds import GROUP
from bursar.core.model.names import is_whole
from bursar.core.model.quantity import FORMAT_ERROR
from bursar.core.quota.quota import QuotaKind
from bursar.core.quota.scopes import OPERATORS, POD_SCOPES, SCOPES
from bursar.core.quota.validation.spec import (
    CONFLICTS,
    FIT,
    NEGATIVE,
    NOT_DELEGATED,
    NOT_FOR_QUOTA,
    NOT_STANDARD,
    NOT_WHOLE,
    OPERATOR_UNFIT,
    OPERATOR_UNKNOWN,
    SCOPE_UNFIT,
    SCOPE_UNKNOWN,
    SCOPES_CONFLICT,
    STANDARD_FOR_QUOTA,
    VALUES_MISSING,
    VALUES_NEEDLESS,
)

QUOTA_POLICIES: Final = {
    QuotaKind.NAMESPACED: "valid-quotas.bursar.io",
    QuotaKind.CLUSTER: "valid-cluster-quotas.bursar.io",
}
NOT_QUALIFIED: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character, with an optional DNS subdomain prefix and '/'"
)
NOT_A_LABEL: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character"
)

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_QUALIFIED: Final = f"^({_LABEL}([.]{_LABEL})*/)?{_NAME}$"
_QUALIFIED_LENGTHS: Final = "^([^/]{1,253}/)?[^/]{1,63}$"
_VALUE: Final = f"^({_NAME})?$"


def quota_policy_documents(
    *, has_cluster_quota: bool = True, is_delegated: bool = False
) -> tuple[Document, ...]:
    """A policy for each kind of quota, with its binding.

    `is_delegated` says whether the API server serves ClusterResourceQuotas, to which a cluster-wide
    quota leaves the limits that a gate cannot enforce. CEL cannot find out.
    """
    kinds = [QuotaKind.NAMESPACED, *([QuotaKind.CLUSTER] if has_cluster_quota else [])]
    return tuple(
        document for kind in kinds for document in _policy(kind, is_delegated=is_delegated)
    )


def _policy(kind: QuotaKind, *, is_delegated: bool) -> tuple[Document, Document]:
    is_cluster = kind is QuotaKind.CLUSTER
    scope, sort = ("Cluster", "clusterresource") if is_cluster else ("Namespaced", "resource")
    target = rule(["CREATE", "UPDATE"], f"applicationaware{sort}quotas", group=GROUP, scope=scope)
    validations = [*_hard(), *_scopes(), *_scope_selector()]
    variables = _variables("object.spec.quota" if is_cluster else "object.spec")
    if is_cluster:
        variables += _selector_variables()
        validations += [*([] if is_delegated else [_undelegated()]), *_selector()]
    spec: Document = {
        "matchConstraints": {"resourceRules": [target]},
        "matchConditions": [
            {
                "name": "spec-changed",
                "expression": "request.operation == 'CREATE' || object.spec != oldObject.spec",
            }
        ],
        "variables": [{"name": name, "expression": text} for name, text in variables],
        "validations": validations,
    }
    everywhere: Document = {}
    return admission_policy(
        "Validating", QUOTA_POLICIES[kind], spec, everywhere, labels={GROUP: "aaq-policies"}
    )


# ------------------------------------------------------------------ CEL


def _texts(texts: Iterable[str]) -> str:
    return f"[{', '.join(_text(each) for each in sorted(texts))}]"


def _text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _is_qualified(name: str) -> str:
    return f"{name}.matches('{_QUALIFIED}') && {name}.matches('{_QUALIFIED_LENGTHS}')"


def _is_standard(name: str) -> str:
    return (
        f"({name} in {_texts(STANDARD_FOR_QUOTA)} || {name}.startsWith('hugepages-') || "
        f"{name}.startsWith('requests.hugepages-'))"
    )


def _is_whole(name: str) -> str:
    """CEL: whether only whole numbers are allowed under the name."""
    counted = [each for each in STANDARD_FOR_QUOTA if is_whole(each)]
    return (
        f"({name} in {_texts(counted)} || ({name}.contains('/') && "
        f"!{name}.contains('kubernetes.io/') && !{name}.startsWith('requests.')))"
    )


def _fits(scope: str, name: str) -> str:
    """CEL: whether a quota with this scope may limit this resource."""
    cases = "".join(
        f"{scope} == {_text(each)} ? {name} in {_texts(fit)} : "
        for each, fit in sorted(FIT.items())
    )
    return f"(!{_is_standard(name)} || ({cases}true))"


def _conflicts(scopes: str) -> str:
    pairs = (f"({_text(one)} in {scopes} && {_text(two)} in {scopes})" for one, two in CONFLICTS)
    return " || ".join(pairs)


def _validation(expression: str, message: str, first: str = "", path: str = "") -> Document:
    """A validation. With `first`, the message has the path and the first value that is wrong."""
    found: Document = {"expression": expression, "message": message, "reason": "Forbidden"}
    if not first:
        return found
    words = f"{path} + ': Invalid value: \"' + {first} + '\": ' + {_text(message)}"
    return {**found, "messageExpression": words}


def _none(names: str, message: str) -> Document:
    """A validation that a list of names is empty; its message is about the first name."""
    first = f"variables.{names}[0]"
    return _validation(
        f"variables.{names}.size() == 0", message, first, f"'spec.hard[' + {first} + ']'"
    )


# ------------------------------------------------------------------ limits


def _variables(spec: str) -> list[tuple[str, str]]:
    amount = "string(variables.hard[name])"
    quantity = f"quantity({amount})"
    approximately = f"{quantity}.asApproximateFloat()"
    # `isInteger` is false for 1000m, which the API server takes for 1. Amounts beyond a double's
    # whole numbers are not checked.
    nearest = f"quantity(string(int({approximately})))"
    whole = f"({approximately} >= 9.0e15 || {quantity}.compareTo({nearest}) == 0)"

    def names(condition: str) -> str:
        return f"variables.hard.filter(name, {condition})"

    return [
        ("hard", f"{spec}.?hard.orValue({{}})"),
        ("unqualified", names(f"!({_is_qualified('name')})")),
        ("unknown", names(f"!name.contains('/') && !{_is_standard('name')}")),
        ("unreadable", names(f"!isQuantity({amount})")),
        ("readable", names(f"isQuantity({amount})")),
        ("negative", f"variables.readable.filter(name, {quantity}.compareTo(quantity('0')) < 0)"),
        ("broken", f"variables.readable.filter(name, {_is_whole('name')} && !{whole})"),
        ("scopes", f"{spec}.?scopes.orValue([])"),
        ("expressions", f"{spec}.?scopeSelector.?matchExpressions.orValue([])"),
        ("names", "variables.expressions.map(each, each.scopeName)"),
    ]


def _hard() -> Iterator[Document]:
    yield _none("unqualified", NOT_QUALIFIED)
    yield _none("unknown", f"{NOT_STANDARD}, {NOT_FOR_QUOTA}")
    yield _none("unreadable", FORMAT_ERROR)
    yield _none("negative", NEGATIVE)
    yield _none("broken", NOT_WHOLE)


def _undelegated() -> Document:
    """A cluster-wide quota may limit only what a scheduling gate enforces."""
    application = "name.matches('^[a-z0-9-]+/[A-Za-z0-9][A-Za-z0-9._-]*$')"
    schedulable = (
        "name.startsWith('requests.') || name.startsWith('limits.') ? name != 'requests.storage' "
        f": (name in {_texts(('cpu', 'memory', 'ephemeral-storage', 'pods'))} || "
        f"(!name.startsWith('count/') && {application}))"
    )
    others = f"variables.hard.filter(name, !({schedulable}))"
    return {
        "expression": f"{others}.size() == 0",
        "message": NOT_DELEGATED,
        "messageExpression": f"{_text(NOT_DELEGATED)} + '[' + {others}.join(' ') + ']'",
        "reason": "Forbidden",
    }


# ------------------------------------------------------------------ scopes


def _scopes() -> Iterator[Document]:
    scopes, listed = "variables.scopes", "variables.scopes.join(',')"
    path = "'spec.scopes'"
    yield _validation(f"{scopes}.all(each, each in {_texts(SCOPES)})", SCOPE_UNKNOWN, listed, path)
    fits = f"{scopes}.all(each, variables.hard.all(name, {_fits('each', 'name')}))"
    yield _validation(fits, SCOPE_UNFIT, listed, path)
    yield _validation(f"!({_conflicts(scopes)})", SCOPES_CONFLICT, listed, path)


def _scope_selector() -> Iterator[Document]:
    expressions, listed = "variables.expressions", "variables.names.join(',')"
    path = "'spec.scopeSelector.matchExpressions'"

    def every(condition: str, message: str) -> Document:
        return _validation(f"{expressions}.all(each, {condition})", message, listed, path)

    values = "each.?values.orValue([]).size()"
    plain = _texts(POD_SCOPES - {"PriorityClass"})
    yield every(f"each.scopeName in {_texts(SCOPES)}", SCOPE_UNKNOWN)
    yield every(f"variables.hard.all(name, {_fits('each.scopeName', 'name')})", SCOPE_UNFIT)
    yield every(f"!(each.scopeName in {plain}) || each.operator == 'Exists'", OPERATOR_UNFIT)
    yield every(f"each.operator in {_texts(OPERATORS)}", OPERATOR_UNKNOWN)
    yield every(f"!(each.operator in ['In', 'NotIn']) || {values} > 0", VALUES_MISSING)
    yield every(f"!(each.operator in ['Exists', 'DoesNotExist']) || {values} == 0", VALUES_NEEDLESS)
    yield _validation(f"!({_conflicts('variables.names')})", SCOPES_CONFLICT, listed, path)


# ------------------------------------------------------------------ namespaces


def _selector_variables() -> list[tuple[str, str]]:
    labels = "object.spec.selector.?labels"
    return [
        ("labels", f"{labels}.?matchLabels.orValue({{}})"),
        ("requirements", f"{labels}.?matchExpressions.orValue([])"),
    ]


def _selector() -> Iterator[Document]:
    path = "'spec.selector.labels'"
    requirements = "variables.requirements"
    shown = f"{requirements}.map(each, each.key + ' ' + each.operator).join(',')"

    def every(condition: str, message: str) -> Document:
        return _validation(f"{requirements}.all(each, {condition})", message, shown, path)

    def is_value(value: str) -> str:
        return f"({value}.size() <= 63 && {value}.matches('{_VALUE}'))"

    values = "each.?values.orValue([])"
    unary = "each.operator in ['Exists', 'DoesNotExist']"
    yield every(f"each.operator in {_texts(OPERATORS)}", "not a valid label selector operator")
    yield every(f"{_is_qualified('each.key')}", NOT_QUALIFIED)
    yield every(
        f"({unary}) || {values}.size() > 0",
        "for 'in', 'notin' operators, values set can't be empty",
    )
    yield every(
        f"!({unary}) || {values}.size() == 0",
        "values set must be empty for exists and does not exist",
    )
    yield every(f"{values}.all(value, {is_value('value')})", NOT_A_LABEL)
    keys = "variables.labels.map(key, key).join(',')"
    yield _validation(
        f"variables.labels.all(key, {_is_qualified('key')})", NOT_QUALIFIED, keys, path
    )
    yield _validation(
        f"variables.labels.all(key, {is_value('variables.labels[key]')})", NOT_A_LABEL, keys, path
    )
