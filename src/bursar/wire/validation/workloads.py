"""Rules for the workloads of the group apps, ReplicationControllers and PodTemplates."""

from collections.abc import Iterator
from typing import Final

from bursar.core.model.names import label_errors, subdomain_errors
from bursar.core.model.pod import Pod
from bursar.core.model.problem import (
    JsonText,
    Problem,
    Verbatim,
    forbidden,
    invalid,
    json_text,
    not_supported,
    required,
)
from bursar.wire.validation.formats import each_invalid, nonnegative, percent_errors
from bursar.wire.validation.labels import compiled, label_selector
from bursar.wire.validation.metadata import object_metadata
from bursar.wire.validation.pods.claims import claim_spec
from bursar.wire.validation.pods.pod import template_problems
from bursar.wire.validation.section import Section, texts_json

_UNMATCHED: Final = "`selector` does not match template `labels`"


def pod_template_problems(document: Section, pod: Pod) -> Iterator[Problem]:
    yield from object_metadata(document.child("metadata"), subdomain_errors)
    yield from template_problems(document.child("template"), pod)


def replication_controller_problems(document: Section, pod: Pod) -> Iterator[Problem]:
    found = [*_replication_controller(document, pod)]
    yield from found
    meta = document.child("metadata")
    prefix = meta.text("generateName")
    for char in "/%" if not found else "":
        # The prefix of this kind is checked only as a part of a URL, and only in the end.
        if char in prefix:
            yield invalid(meta.at("generateName"), prefix, f"may not contain '{char}'")


def _replication_controller(document: Section, pod: Pod) -> Iterator[Problem]:
    spec = document.child("spec")
    template = spec.maybe_child("template")
    labels = {} if template is None else template.child("metadata").text_map("labels")
    meta = document.child("metadata")
    if labels and not meta.count("labels"):
        # The server takes the template's labels for the object itself.
        meta = meta.replaced(labels={**labels})
    yield from object_metadata(meta, subdomain_errors, prefix_checked=False)
    yield from nonnegative(spec.at("minReadySeconds"), spec.number("minReadySeconds"))
    yield from nonnegative(spec.at("replicas"), spec.maybe_number("replicas"))
    selector = spec.text_map("selector") or labels
    if not selector:
        yield required(spec.at("selector"))
    if template is None:
        yield required(spec.at("template"))
        return
    if not selector.items() <= labels.items():
        meta = template.child("metadata")
        yield invalid(meta.at("labels"), labels_json(meta), _UNMATCHED)
    yield from template_problems(template, pod)
    yield from _always(template, "ReplicationController")


def replica_set_problems(document: Section, pod: Pod) -> Iterator[Problem]:
    spec = document.child("spec")
    yield from object_metadata(document.child("metadata"), subdomain_errors)
    yield from nonnegative(spec.at("replicas"), spec.maybe_number("replicas"))
    yield from nonnegative(spec.at("minReadySeconds"), spec.number("minReadySeconds"))
    yield from _replicated(spec, pod)


def deployment_problems(document: Section, pod: Pod) -> Iterator[Problem]:
    spec = document.child("spec")
    yield from object_metadata(document.child("metadata"), subdomain_errors)
    yield from nonnegative(spec.at("replicas"), spec.maybe_number("replicas"))
    yield from _replicated(spec, pod)
    yield from _deployment_strategy(spec.child("strategy"))
    for name in ("minReadySeconds", "revisionHistoryLimit"):
        yield from nonnegative(spec.at(name), spec.maybe_number(name))
    deadline, field = (
        spec.maybe_number("progressDeadlineSeconds"),
        spec.at("progressDeadlineSeconds"),
    )
    deadline = 600 if deadline is None else deadline
    yield from nonnegative(field, deadline)
    if deadline <= spec.number("minReadySeconds"):
        yield invalid(field, deadline, "must be greater than minReadySeconds")


def _replicated(spec: Section, pod: Pod) -> Iterator[Problem]:
    yield from _selector(spec, "deployment")
    selector = compiled(spec.maybe_child("selector"))
    template = spec.child("template")
    if selector is None:
        field = spec.at("selector")
        yield invalid(field, selector_json(spec.child("selector")), "invalid label selector")
        return
    yield from _matched(spec)
    yield from template_problems(template, pod)
    yield from _always(template, "ReplicaSet")


def stateful_set_problems(document: Section, pod: Pod) -> Iterator[Problem]:
    spec = document.child("spec")
    yield from object_metadata(document.child("metadata"), label_errors)
    policy = spec.text("podManagementPolicy")
    if policy not in {"", "OrderedReady", "Parallel"}:
        detail = "must be 'OrderedReady' or 'Parallel'"
        yield invalid(spec.at("podManagementPolicy"), JsonText(policy), detail)
    yield from _stateful_set_strategy(spec.child("updateStrategy"))
    retention = spec.child("persistentVolumeClaimRetentionPolicy")
    for name in ("whenDeleted", "whenScaled"):
        if retention.text(name) not in {"", "Retain", "Delete"}:
            yield not_supported(retention.at(name), retention.word(name), ("Retain", "Delete"))
    for claim in spec.items("volumeClaimTemplates"):
        yield from claim_spec(claim.child("spec"))
    yield from nonnegative(spec.at("replicas"), spec.maybe_number("replicas"))
    yield from nonnegative(spec.at("minReadySeconds"), spec.number("minReadySeconds"))
    start = spec.child("ordinals").number("start")
    yield from nonnegative(spec.at("ordinals.start"), start)
    if service := spec.text("serviceName"):
        yield from each_invalid(spec.at("serviceName"), service, label_errors(service))
    yield from _selector(spec, "statefulset")
    template = spec.child("template")
    if compiled(spec.maybe_child("selector")) is None:
        yield invalid(spec.at("selector"), selector_json(spec.child("selector")), "")
    else:
        yield from _matched(spec)
        yield from _stateful_template(spec, template, pod)
    yield from _always(template, "StatefulSet")


def _stateful_template(spec: Section, template: Section, pod: Pod) -> Iterator[Problem]:
    """The template with the volumes of `volumeClaimTemplates`, which replace those of their name.

    The names of a StatefulSet's pods are its own, so hostname and subdomain are not checked.
    """
    claims = {claim.child("metadata").text("name") for claim in spec.items("volumeClaimTemplates")}
    added = [
        Section({"name": name, "persistentVolumeClaim": {"claimName": name}}, "")
        for name in sorted(claims)
    ]
    inner = template.child("spec")
    kept = [volume for volume in inner.items("volumes") if volume.text("name") not in claims]
    whole = inner.replaced(
        hostname=None, subdomain=None, volumes=[volume.value for volume in (*added, *kept)]
    )
    yield from template_problems(template.replaced(spec=whole.value), pod)


def daemon_set_problems(document: Section, pod: Pod) -> Iterator[Problem]:
    spec = document.child("spec")
    template = spec.child("template")
    yield from object_metadata(document.child("metadata"), subdomain_errors)
    selector = spec.maybe_child("selector")
    yield from label_selector(selector)
    chosen, labels = compiled(selector), template.child("metadata").text_map("labels")
    if chosen is not None and not chosen.matches(labels):
        field = template.at("metadata.labels")
        yield invalid(field, labels_json(template.child("metadata")), _UNMATCHED)
    if selector is not None and _is_empty(selector):
        detail = "empty selector is invalid for daemonset"
        yield invalid(selector.path, selector_json(selector), detail)
    yield from template_problems(template, pod)
    yield from _always(template, "DaemonSet")
    for name in ("minReadySeconds", "revisionHistoryLimit"):
        yield from nonnegative(spec.at(name), spec.maybe_number(name))
    yield from _daemon_set_strategy(spec.child("updateStrategy"))


# ------------------------------------------------------------------ selector and template


def _selector(spec: Section, kind: str) -> Iterator[Problem]:
    selector = spec.maybe_child("selector")
    if selector is None:
        yield required(spec.at("selector"))
        return
    yield from label_selector(selector)
    if _is_empty(selector):
        detail = f"empty selector is invalid for {kind}"
        yield invalid(selector.path, selector_json(selector), detail)


def _is_empty(selector: Section) -> bool:
    return not selector.count("matchLabels") and not selector.count("matchExpressions")


def _matched(spec: Section) -> Iterator[Problem]:
    selector = spec.maybe_child("selector")
    chosen, meta = compiled(selector), spec.child("template").child("metadata")
    is_limited = selector is None or not _is_empty(selector)
    if chosen is not None and is_limited and not chosen.matches(meta.text_map("labels")):
        yield invalid(meta.at("labels"), labels_json(meta), _UNMATCHED)


def _always(template: Section, kind: str) -> Iterator[Problem]:
    """The pods of a workload that runs for ever restart always, and have no deadline."""
    spec = template.child("spec")
    policy = spec.text("restartPolicy") or "Always"
    if policy != "Always":
        yield not_supported(spec.at("restartPolicy"), JsonText(policy), ("Always",))
    if spec.has("activeDeadlineSeconds"):
        detail = f"activeDeadlineSeconds in {kind} is not Supported"
        yield forbidden(spec.at("activeDeadlineSeconds"), detail)


def selector_json(selector: Section) -> Verbatim:
    """A label selector in JSON, as Go writes it: empty parts are left out."""
    parts: list[str] = []
    if selector.count("matchLabels"):
        parts.append(f'"matchLabels":{texts_json(selector.text_map("matchLabels")).text}')
    if selector.count("matchExpressions"):
        shown = [_expression_json(each) for each in selector.items("matchExpressions")]
        parts.append(f'"matchExpressions":[{",".join(shown)}]')
    return Verbatim(f"{{{','.join(parts)}}}")


def _expression_json(expression: Section) -> str:
    key, operator = expression.text("key"), expression.text("operator")
    values = [*map(json_text, expression.texts("values"))]
    listed = f',"values":[{",".join(values)}]' if values else ""
    return f'{{"key":{json_text(key)},"operator":{json_text(operator)}{listed}}}'


def labels_json(meta: Section) -> Verbatim:
    return texts_json(meta.text_map("labels")) if meta.has("labels") else Verbatim("null")


# ------------------------------------------------------------------ update strategies


def _deployment_strategy(strategy: Section) -> Iterator[Problem]:
    kind, rolling = strategy.text("type") or "RollingUpdate", strategy.child("rollingUpdate")
    if kind == "Recreate":
        if strategy.has("rollingUpdate"):
            detail = "may not be specified when strategy `type` is 'Recreate'"
            yield forbidden(rolling.path, detail)
        return
    if kind != "RollingUpdate":
        allowed = ("Recreate", "RollingUpdate")
        yield not_supported(strategy.path, _strategy_json(strategy), allowed)
        return
    unavailable, surge = (
        _rolling(rolling, "maxUnavailable", "25%"),
        _rolling(rolling, "maxSurge", "25%"),
    )
    yield from _int_or_percent(rolling.at("maxUnavailable"), unavailable)
    yield from _int_or_percent(rolling.at("maxSurge"), surge)
    if _amount(unavailable) == 0 and _amount(surge) == 0:
        detail = "may not be 0 when `maxSurge` is 0"
        yield invalid(rolling.at("maxUnavailable"), _shown(unavailable), detail)
    yield from _at_most_all(rolling.at("maxUnavailable"), unavailable)


def _daemon_set_strategy(strategy: Section) -> Iterator[Problem]:
    kind, rolling = strategy.text("type") or "RollingUpdate", strategy.child("rollingUpdate")
    if kind == "OnDelete":
        return
    if kind != "RollingUpdate":
        allowed = ("RollingUpdate", "OnDelete")
        yield not_supported(strategy.path, _strategy_json(strategy), allowed)
        return
    amounts = {
        "maxUnavailable": _rolling(rolling, "maxUnavailable", 1),
        "maxSurge": _rolling(rolling, "maxSurge", 0),
    }
    for name, amount in amounts.items():
        yield from _int_or_percent(rolling.at(name), amount)
    for name, amount in amounts.items():
        yield from _at_most_all(rolling.at(name), amount)
    has_surge = _amount(amounts["maxSurge"]) != 0
    if _amount(amounts["maxUnavailable"]) == 0:
        if not has_surge:
            detail = "cannot be 0 when maxSurge is 0"
            yield required(rolling.at("maxUnavailable"), detail)
    elif has_surge:
        detail = "may not be set when maxUnavailable is non-zero"
        yield invalid(rolling.at("maxSurge"), _shown(amounts["maxSurge"]), detail)


def _stateful_set_strategy(strategy: Section) -> Iterator[Problem]:
    """Check the strategy. `maxUnavailable` is dropped: its feature gate is off by default."""
    kind, rolling = strategy.text("type"), strategy.maybe_child("rollingUpdate")
    partition = 0 if rolling is None else rolling.number("partition")
    shown = f'{{"Partition":{partition},"MaxUnavailable":null}}'
    if kind == "OnDelete":
        if rolling is not None:
            detail = "only allowed for updateStrategy 'RollingUpdate'"
            yield invalid(rolling.path, Verbatim(shown), detail)
    elif kind in {"", "RollingUpdate"}:
        if rolling is not None:
            yield from nonnegative(rolling.at("partition"), partition)
    else:
        inner = "null" if rolling is None else shown
        value = Verbatim(f'{{"Type":{json_text(kind)},"RollingUpdate":{inner}}}')
        yield invalid(strategy.path, value, "must be 'RollingUpdate' or 'OnDelete'")


def _rolling(rolling: Section, name: str, default: int | str) -> int | str:
    amount = rolling.number_or_text(name)
    return default if amount is None else amount


def _strategy_json(strategy: Section) -> Verbatim:
    rolling = strategy.maybe_child("rollingUpdate")
    inner = "null"
    if rolling is not None:
        unavailable = _shown(_rolling(rolling, "maxUnavailable", 0)).text
        surge = _shown(_rolling(rolling, "maxSurge", 0)).text
        inner = f'{{"MaxUnavailable":{unavailable},"MaxSurge":{surge}}}'
    return Verbatim(f'{{"Type":{json_text(strategy.text("type"))},"RollingUpdate":{inner}}}')


def _int_or_percent(field: str, amount: int | str) -> Iterator[Problem]:
    if isinstance(amount, str):
        yield from each_invalid(field, _shown(amount), percent_errors(amount))
    else:
        yield from nonnegative(field, amount)


def _at_most_all(field: str, amount: int | str) -> Iterator[Problem]:
    if isinstance(amount, str) and not percent_errors(amount) and _amount(amount) > 100:
        yield invalid(field, _shown(amount), "must not be greater than 100%")


def _amount(amount: int | str) -> int:
    if isinstance(amount, int):
        return amount
    digits = amount[:-1] if not percent_errors(amount) else amount
    # Upstream reads a text that is no percentage with Atoi, which gives 0 for most of them.
    return int(digits) if digits.isascii() and digits.lstrip("+-").isdigit() else 0


def _shown(amount: int | str) -> Verbatim:
    return Verbatim(json_text(amount) if isinstance(amount, str) else str(amount))
