"""Rules for what decides on a pod's node: affinity, tolerations, topology spread."""

from collections.abc import Iterator, Sequence
from typing import Final

from bursar.core.model.names import label_errors, subdomain_errors
from bursar.core.model.problem import (
    JsonText,
    Problem,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from bursar.core.model.selectors.selector import label_value_errors
from bursar.wire.validation.formats import NOT_POSITIVE, each_invalid
from bursar.wire.validation.labels import label_name, label_selector
from bursar.wire.validation.section import Section

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_NOT_AN_OPERATOR: Final = "not a valid selector operator"
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_ACTIONS: Final = ("DoNotSchedule", "ScheduleAnyway")


def affinity(spec: Section, labels: dict[str, str] | None) -> Iterator[Problem]:
    """Check the affinity. `labels` are those of a pod; None for a template.

    The server adds the values of `matchLabelKeys` to the selectors of a pod, not of a template.
    """
    found = spec.child("affinity")
    if (node := found.maybe_child("nodeAffinity")) is not None:
        yield from _node_affinity(node)
    for name in ("podAffinity", "podAntiAffinity"):
        pods = found.child(name)
        for term in pods.items(_REQUIRED):
            yield from _pod_term(term, labels)
        for weighted in pods.items(_PREFERRED):
            yield from _weight(weighted)
            yield from _pod_term(weighted.child("podAffinityTerm"), labels)


def _weight(weighted: Section) -> Iterator[Problem]:
    weight = weighted.number("weight")
    if not 1 <= weight <= 100:
        yield invalid(weighted.at("weight"), weight, "must be in the range 1-100")


# ------------------------------------------------------------------ nodes


def _node_affinity(affinity: Section) -> Iterator[Problem]:
    if (wanted := affinity.maybe_child(_REQUIRED)) is not None:
        if not wanted.count("nodeSelectorTerms"):
            detail = "must have at least one node selector term"
            yield required(wanted.at("nodeSelectorTerms"), detail)
        for term in wanted.items("nodeSelectorTerms"):
            yield from _node_term(term, values_checked=True)
    for preferred in affinity.items(_PREFERRED):
        yield from _weight(preferred)
        yield from _node_term(preferred.child("preference"), values_checked=False)


def _node_term(term: Section, *, values_checked: bool) -> Iterator[Problem]:
    for wanted in term.items("matchExpressions"):
        yield from _node_expression(wanted, values_checked=values_checked)
    for wanted in term.items("matchFields"):
        yield from _node_field(wanted)


def _node_expression(wanted: Section, *, values_checked: bool) -> Iterator[Problem]:
    values, field = wanted.texts("values"), wanted.at("values")
    match wanted.text("operator"):
        case "In" | "NotIn":
            if not values:
                yield required(field, "must be specified when `operator` is 'In' or 'NotIn'")
        case "Exists" | "DoesNotExist":
            if values:
                detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                yield forbidden(field, detail)
        case "Gt" | "Lt":
            if len(values) != 1:
                detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                yield required(field, detail)
        case _:
            yield invalid(wanted.at("operator"), wanted.word("operator"), _NOT_AN_OPERATOR)
    yield from label_name(wanted.at("key"), wanted.text("key"))
    for index, value in enumerate(values if values_checked else ()):
        yield from each_invalid(f"{field}[{index}]", value, label_value_errors(value))


def _node_field(wanted: Section) -> Iterator[Problem]:
    values, field = wanted.texts("values"), wanted.at("values")
    if wanted.text("operator") not in {"In", "NotIn"}:
        yield invalid(wanted.at("operator"), wanted.word("operator"), _NOT_AN_OPERATOR)
    elif len(values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield required(field, detail)
    if wanted.text("key") != "metadata.name":
        yield invalid(wanted.at("key"), wanted.text("key"), "not a valid field selector key")
        return
    for index, value in enumerate(values):
        yield from each_invalid(f"{field}[{index}]", value, subdomain_errors(value))


# ------------------------------------------------------------------ other pods


def _pod_term(term: Section, labels: dict[str, str] | None) -> Iterator[Problem]:
    selector = _completed(term, labels, (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")))
    yield from label_selector(selector)
    yield from label_selector(term.maybe_child("namespaceSelector"))
    for name in term.texts("namespaces"):
        yield from each_invalid(term.at("namespace"), name, label_errors(name))
    yield from _label_keys(term, selector, ("matchLabelKeys", "mismatchLabelKeys"))
    key = term.text("topologyKey")
    if not key:
        yield required(term.at("topologyKey"), "can not be empty")
    yield from label_name(term.at("topologyKey"), key)


def _completed(
    term: Section, labels: dict[str, str] | None, keys: Sequence[tuple[str, str]]
) -> Section | None:
    """The label selector with the pod's own values of the keys that the term lists."""
    selector = term.maybe_child("labelSelector")
    if selector is None or labels is None:
        return selector
    expressions = [each.value for each in selector.items("matchExpressions")]
    expressions += [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for name, operator in keys
        for key in term.texts(name)
        if key in labels
    ]
    return selector.replaced(matchExpressions=[*expressions])


def _label_keys(
    term: Section, selector: Section | None, names: tuple[str, ...]
) -> Iterator[Problem]:
    for name in names:
        keys = term.texts(name)
        if keys and selector is None:
            yield forbidden(term.at(name), "must not be specified when labelSelector is not set")
        elif selector is not None:
            for index, key in enumerate(keys):
                yield from label_name(f"{term.at(name)}[{index}]", key)
    places = {key: index for index, key in enumerate(term.texts("matchLabelKeys"))}
    if selector is not None:
        seen = set(selector.text_map("matchLabels"))
        for expression in selector.items("matchExpressions"):
            key = expression.text("key")
            if key in places and key in seen:
                detail = "exists in both matchLabelKeys and labelSelector"
                yield invalid(f"{term.path}[{places[key]}]", key, detail)
            seen.add(key)
    mismatched = {*term.texts("mismatchLabelKeys")}
    for index, key in enumerate(term.texts("matchLabelKeys")):
        if key in mismatched:
            detail = "exists in both matchLabelKeys and mismatchLabelKeys"
            yield invalid(f"{term.at('matchLabelKeys')}[{index}]", key, detail)


# ------------------------------------------------------------------ topology spread


def topology_spread(spec: Section, labels: dict[str, str] | None) -> Iterator[Problem]:
    constraints = [*spec.items("topologySpreadConstraints")]
    last = {_spread(each): index for index, each in enumerate(constraints)}
    for index, constraint in enumerate(constraints):
        key, action = _spread(constraint)
        if (skew := constraint.number("maxSkew")) <= 0:
            yield invalid(constraint.at("maxSkew"), skew, NOT_POSITIVE)
        if not key:
            yield required(constraint.at("topologyKey"), "can not be empty")
        if action not in _ACTIONS:
            yield not_supported(constraint.at("whenUnsatisfiable"), JsonText(action), _ACTIONS)
        if last[key, action] > index:
            field = constraint.at("{topologyKey, whenUnsatisfiable}")
            yield duplicate(field, f"{{{key}, {action}}}")
        yield from _spread_policies(constraint, action)
        selector = _completed(constraint, labels, (("matchLabelKeys", "In"),))
        yield from _label_keys(constraint, selector, ("matchLabelKeys",))
        yield from label_selector(selector)


def _spread(constraint: Section) -> tuple[str, str]:
    return constraint.text("topologyKey"), constraint.text("whenUnsatisfiable")


def _spread_policies(constraint: Section, action: str) -> Iterator[Problem]:
    domains, field = constraint.maybe_number("minDomains"), constraint.at("minDomains")
    if domains is not None:
        if domains <= 0:
            yield invalid(field, domains, NOT_POSITIVE)
        if action != "DoNotSchedule":
            detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
            yield invalid(field, domains, detail)
    for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        policy = constraint.maybe_text(name)
        if policy is not None and policy not in {"Honor", "Ignore"}:
            yield not_supported(constraint.at(name), JsonText(policy), ("Honor", "Ignore"))


# ------------------------------------------------------------------ tolerations


def tolerations(spec: Section) -> Iterator[Problem]:
    for toleration in spec.items("tolerations"):
        yield from _toleration(toleration)


def _toleration(toleration: Section) -> Iterator[Problem]:
    key, operator = toleration.text("key"), toleration.text("operator")
    value, effect = toleration.text("value"), toleration.text("effect")
    field = toleration.at("operator")
    if key:
        yield from label_name(toleration.at("key"), key)
    elif operator != "Exists":
        detail = (
            "operator must be Exists when `key` is empty, "
            'which means "match all values and all keys"'
        )
        yield invalid(field, JsonText(operator), detail)
    if toleration.has("tolerationSeconds") and effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield invalid(toleration.at("effect"), JsonText(effect), detail)
    match operator:
        case "Equal" | "":
            if errors := label_value_errors(value):
                yield invalid(field, value, ";".join(errors))
        case "Exists":
            if value:
                yield invalid(field, value, "value must be empty when `operator` is 'Exists'")
        case "Lt" | "Gt":
            yield not_supported(field, JsonText(operator), ("Equal", "Exists", "Lt", "Gt"))
        case _:
            yield not_supported(field, JsonText(operator), ("Equal", "Exists"))
    if effect and effect not in _EFFECTS:
        yield not_supported(toleration.at("effect"), JsonText(effect), _EFFECTS)
