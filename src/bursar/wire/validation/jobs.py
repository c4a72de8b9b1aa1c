"""Rules for Jobs and CronJobs."""

import re
from collections.abc import Iterator
from typing import Final

from bursar.core.model.names import bytes_of, label_errors, qualified_name_errors, subdomain_errors
from bursar.core.model.pod import Pod
from bursar.core.model.problem import (
    NO_VALUE,
    JsonText,
    Problem,
    Verbatim,
    duplicate,
    invalid,
    not_supported,
    quoted,
    required,
    too_long,
    too_many,
)
from bursar.wire.validation.cron_schedule import schedule_error
from bursar.wire.validation.formats import each_invalid, nonnegative
from bursar.wire.validation.labels import compiled, label_selector
from bursar.wire.validation.metadata import object_metadata, object_name
from bursar.wire.validation.pods.pod import template_problems
from bursar.wire.validation.section import Section
from bursar.wire.validation.workloads import labels_json, selector_json

_INDEXED: Final = "Indexed"
_COUNTS: Final = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_JOB_NAME_LABELS: Final = ("job-name", "batch.kubernetes.io/job-name")
_UID_LABELS: Final = ("controller-uid", "batch.kubernetes.io/controller-uid")
_INDEXES_MAX: Final = 100_000
_INDEXES_MAX_OF_MANY: Final = 10_000
_RULES_MAX: Final = 20
_CODES_MAX: Final = 255
_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
_STATUSES: Final = ("False", "True", "Unknown")
_CRON_NAME_MAX: Final = 52
_HTTP_PATH: Final = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_ZONE_PART: Final = re.compile(r"[A-Za-z\.\-_0-9+]{1,14}")
_OWN_UID: Final = "uid"
"""Stands for the UID that the server gives the Job."""


def job_problems(document: Section, pod: Pod) -> Iterator[Problem]:
    meta, spec = document.child("metadata"), _with_defaults(document.child("spec"))
    name = object_name(meta)
    if not spec.flag("manualSelector"):
        spec = _with_generated_labels(spec, name)
    template = spec.child("template")
    labels = template.child("metadata").text_map("labels")
    if document.child("spec").child("template").child("metadata").has("labels") and not meta.count(
        "labels"
    ):
        # The server takes the template's labels for the Job itself.
        meta = meta.replaced(labels={**labels})
    yield from object_metadata(meta, subdomain_errors)
    yield from _generated(spec, name)
    yield from _job_spec(spec, pod)
    yield from _selector(spec, labels)
    completions = spec.number("completions")
    if spec.text("completionMode") == _INDEXED and completions > 0:
        hostname = f"{name}-{completions - 1}"
        if label_errors(hostname):
            detail = f"will not able to create pod with invalid DNS label: {hostname}"
            yield invalid(meta.at("name"), name, detail)


def _with_defaults(spec: Section) -> Section:
    value = dict(spec.value)
    if value.get("completions") is None and value.get("parallelism") is None:
        value["completions"] = value["parallelism"] = 1
    if value.get("completionMode") is None:
        value["completionMode"] = "NonIndexed"
    return Section(value, spec.path)


def _with_generated_labels(spec: Section, name: str) -> Section:
    template = spec.child("template")
    meta = template.child("metadata")
    labels = {
        **dict.fromkeys(_JOB_NAME_LABELS, name),
        **dict.fromkeys(_UID_LABELS, _OWN_UID),
        **meta.text_map("labels"),
    }
    whole = template.replaced(metadata=meta.replaced(labels={**labels}).value)
    return spec.replaced(template=whole.value)


def _generated(spec: Section, name: str) -> Iterator[Problem]:
    """Labels that the server sets itself cannot be set to anything else."""
    if spec.flag("manualSelector"):
        return
    meta = spec.child("template").child("metadata")
    labels = meta.text_map("labels")
    for key in (*_UID_LABELS, *_JOB_NAME_LABELS):
        wanted = _OWN_UID if key in _UID_LABELS else name
        if labels[key] != wanted:
            yield invalid(f"{meta.at('labels')}[{key}]", NO_VALUE, f"must be '{wanted}'")
    expected = dict.fromkeys(_UID_LABELS, _OWN_UID) | dict.fromkeys(_JOB_NAME_LABELS, name)
    selector = compiled(spec.maybe_child("selector"))
    if spec.has("selector") and selector is not None and not selector.matches(expected):
        yield invalid(spec.at("selector"), NO_VALUE, "`selector` not auto-generated")


def _selector(spec: Section, labels: dict[str, str]) -> Iterator[Problem]:
    selector = spec.maybe_child("selector")
    if selector is None:
        if spec.flag("manualSelector"):
            yield required(spec.at("selector"))
            meta = spec.child("template").child("metadata")
            detail = "`selector` does not match template `labels`"
            yield invalid(meta.at("labels"), labels_json(meta), detail)
        return
    yield from label_selector(selector)
    chosen = compiled(selector)
    if chosen is not None and not chosen.matches(labels):
        meta = spec.child("template").child("metadata")
        shown = labels_json(meta) if spec.flag("manualSelector") else NO_VALUE
        yield invalid(meta.at("labels"), shown, "`selector` does not match template `labels`")


def _job_spec(spec: Section, pod: Pod) -> Iterator[Problem]:
    for name in _COUNTS:
        yield from nonnegative(spec.at(name), spec.maybe_number(name))
    if spec.has("maxFailedIndexes") and not spec.has("backoffLimitPerIndex"):
        detail = "when maxFailedIndexes is specified"
        yield required(spec.at("backoffLimitPerIndex"), detail)
    yield from _managed_by(spec)
    yield from _completion_mode(spec)
    if (policy := spec.maybe_child("podFailurePolicy")) is not None:
        yield from _failure_policy(policy, spec)
    if (success := spec.maybe_child("successPolicy")) is not None:
        if spec.text("completionMode") != _INDEXED:
            yield invalid(success.path, NO_VALUE, "requires indexed completion mode")
        else:
            yield from _success_policy(success, spec)
    yield from _replacement_policy(spec)
    yield from template_problems(spec.child("template"), pod)
    yield from _restart_policy(spec)


def _restart_policy(spec: Section) -> Iterator[Problem]:
    inner = spec.child("template").child("spec")
    policy, field = inner.text("restartPolicy") or "Always", inner.at("restartPolicy")
    if policy == "Always":
        yield required(field, 'valid values: "OnFailure", "Never"')
    elif policy not in {"OnFailure", "Never"}:
        yield not_supported(field, JsonText(policy), ("OnFailure", "Never"))
    elif spec.has("podFailurePolicy") and policy != "Never":
        detail = 'only "Never" is supported when podFailurePolicy is specified'
        yield invalid(field, JsonText(policy), detail)


def _managed_by(spec: Section) -> Iterator[Problem]:
    name, field = spec.maybe_text("managedBy"), spec.at("managedBy")
    if name is None:
        return
    host, _, path = name.partition("/")
    if not name:
        yield required(field)
    elif not host or not path:
        yield invalid(field, name, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        yield from each_invalid(field, host, subdomain_errors(host))
        if not re.fullmatch(_HTTP_PATH, path):
            detail = f"Invalid path (regex used for validation is '{_HTTP_PATH}')"
            yield invalid(field, path, detail)
    if bytes_of(name) > 63:
        yield too_long(field, 63)


def _completion_mode(spec: Section) -> Iterator[Problem]:
    mode = spec.maybe_text("completionMode")
    if mode not in {None, "NonIndexed", _INDEXED}:
        allowed = ("NonIndexed", _INDEXED)
        yield not_supported(spec.at("completionMode"), JsonText(mode or ""), allowed)
    if mode == _INDEXED:
        yield from _indexed(spec)
    elif mode in {None, "NonIndexed"}:
        for name in ("backoffLimitPerIndex", "maxFailedIndexes"):
            number = spec.maybe_number(name)
            if number is not None:
                yield invalid(spec.at(name), number, "requires indexed completion mode")


def _indexed(spec: Section) -> Iterator[Problem]:
    completions, parallelism = spec.maybe_number("completions"), spec.number("parallelism")
    failed, field = spec.maybe_number("maxFailedIndexes"), spec.at("maxFailedIndexes")
    if completions is None:
        yield required(spec.at("completions"), "when completion mode is Indexed")
    if parallelism > _INDEXES_MAX:
        detail = f"must be less than or equal to {_INDEXES_MAX} when completion mode is Indexed"
        yield invalid(spec.at("parallelism"), parallelism, detail)
    if failed is not None and completions is not None and failed > completions:
        yield invalid(field, failed, "must be less than or equal to completions")
    if failed is not None and failed > _INDEXES_MAX:
        yield invalid(field, failed, f"must be less than or equal to {_INDEXES_MAX}")
    if (completions or 0) <= _INDEXES_MAX or not spec.has("backoffLimitPerIndex"):
        return
    if failed is None:
        yield required(field, f"must be specified when completions is above {_INDEXES_MAX}")
    detail = (
        f"must be less than or equal to {_INDEXES_MAX_OF_MANY} when completions are above "
        f"{_INDEXES_MAX} and used with backoff limit per index"
    )
    if parallelism > _INDEXES_MAX_OF_MANY:
        yield invalid(spec.at("parallelism"), parallelism, detail)
    if failed is not None and failed > _INDEXES_MAX_OF_MANY:
        yield invalid(field, failed, detail)


# ------------------------------------------------------------------ policies


def _replacement_policy(spec: Section) -> Iterator[Problem]:
    policy, field = spec.maybe_text("podReplacementPolicy"), spec.at("podReplacementPolicy")
    if policy is None:
        return
    allowed = ("Failed",) if spec.has("podFailurePolicy") else ("Failed", "TerminatingOrFailed")
    if policy not in allowed:
        yield not_supported(field, JsonText(policy), allowed)


def _failure_policy(policy: Section, spec: Section) -> Iterator[Problem]:
    if policy.count("rules") > _RULES_MAX:
        yield too_many(policy.at("rules"), policy.count("rules"), _RULES_MAX)
    inner = spec.child("template").child("spec")
    names = {
        container.text("name")
        for field in ("containers", "initContainers")
        for container in inner.items(field)
    }
    for rule in policy.items("rules"):
        yield from _failure_action(rule, spec)
        codes = rule.maybe_child("onExitCodes")
        if codes is not None:
            yield from _exit_codes(codes, names)
        yield from _pod_conditions(rule)
        if (codes is not None) == bool(rule.count("onPodConditions")):
            which = "both OnExitCodes and OnPodConditions is not supported"
            if codes is None:
                which = "one of OnExitCodes and OnPodConditions is required"
            yield invalid(rule.path, NO_VALUE, f"specifying {which}")


def _failure_action(rule: Section, spec: Section) -> Iterator[Problem]:
    action, field = rule.text("action"), rule.at("action")
    if not action:
        yield required(field, f"valid values: {_listed(_ACTIONS)}")
    elif action not in _ACTIONS:
        yield not_supported(field, JsonText(action), _ACTIONS)
    elif action == "FailIndex" and not spec.has("backoffLimitPerIndex"):
        yield invalid(field, JsonText(action), "requires the backoffLimitPerIndex to be set")


def _listed(words: tuple[str, ...]) -> str:
    return f"[{' '.join(map(quoted, words))}]"


def _exit_codes(codes: Section, names: set[str]) -> Iterator[Problem]:
    operator, field = codes.text("operator"), codes.at("values")
    if not operator:
        yield required(codes.at("operator"), f"valid values: {_listed(('In', 'NotIn'))}")
    elif operator not in {"In", "NotIn"}:
        yield not_supported(codes.at("operator"), JsonText(operator), ("In", "NotIn"))
    container = codes.maybe_text("containerName")
    if container is not None and container not in names:
        detail = "must be one of the container or initContainer names in the pod template"
        yield invalid(codes.at("containerName"), container, detail)
    values = codes.numbers("values")
    if not values:
        # Go prints a missing list as null, and one that is given as [].
        shown = Verbatim("[]" if codes.has("values") else "null")
        yield invalid(field, shown, "at least one value is required")
    elif len(values) > _CODES_MAX:
        yield too_many(field, len(values), _CODES_MAX)
    seen: set[int] = set()
    for index, code in enumerate(values):
        if operator == "In" and code == 0:
            yield invalid(f"{field}[{index}]", code, "must not be 0 for the In operator")
        if code in seen:
            yield duplicate(f"{field}[{index}]", code)
        seen.add(code)
    if list(values) != sorted(values):
        yield invalid(field, Verbatim(f"[{','.join(map(str, values))}]"), "must be ordered")


def _pod_conditions(rule: Section) -> Iterator[Problem]:
    field = rule.at("onPodConditions")
    if rule.count("onPodConditions") > _RULES_MAX:
        yield too_many(field, rule.count("onPodConditions"), _RULES_MAX)
    for pattern in rule.items("onPodConditions"):
        kind, status = pattern.text("type"), pattern.text("status") or "True"
        yield from each_invalid(pattern.at("type"), kind, qualified_name_errors(kind))
        if status not in _STATUSES:
            yield not_supported(pattern.at("status"), JsonText(status), _STATUSES)


def _success_policy(policy: Section, spec: Section) -> Iterator[Problem]:
    rules = policy.count("rules")
    if not rules:
        detail = "at least one rules must be specified when the successPolicy is specified"
        yield required(policy.at("rules"), detail)
    if rules > _RULES_MAX:
        yield too_many(policy.at("rules"), rules, _RULES_MAX)
    if spec.maybe_number("completions") is None:
        # Upstream panics on these rules; the missing completions are refused anyway.
        return
    for rule in policy.items("rules"):
        yield from _success_rule(rule, spec.number("completions"))


def _success_rule(rule: Section, completions: int) -> Iterator[Problem]:
    count, indexes = rule.maybe_number("succeededCount"), rule.maybe_text("succeededIndexes")
    if count is None and indexes is None:
        detail = "at least one of succeededCount or succeededIndexes must be specified"
        yield required(rule.path, detail)
    total = 0
    if indexes is not None:
        field = rule.at("succeededIndexes")
        if bytes_of(indexes) > 64 * 1024:
            yield too_long(field, 64 * 1024)
        found = _index_count(indexes, completions)
        if isinstance(found, str):
            yield invalid(field, indexes, f"error parsing succeededIndexes: {found}")
        else:
            total = found
    if count is None:
        return
    field = rule.at("succeededCount")
    yield from nonnegative(field, count)
    if count > completions:
        detail = (
            f"must be less than or equal to {completions} (the number of specified completions)"
        )
        yield invalid(field, count, detail)
    if indexes is not None and count > total:
        detail = (
            f"must be less than or equal to {total} (the number of indexes in the specified "
            "succeededIndexes field)"
        )
        yield invalid(field, count, detail)


def _index_count(text: str, completions: int) -> int | str:
    """The number of indexes in a text such as `1,3-5`, or what is wrong with it."""
    total, last = 0, -1
    for interval in text.split(",") if text else ():
        ends = interval.split("-")
        if len(ends) > 2:
            return (
                f"the fragment {quoted(interval)} violates the requirement that an index interval "
                "can have at most two parts separated by '-'"
            )
        numbers = [int(end) if re.fullmatch(r"[+-]?[0-9]{1,18}", end) else None for end in ends]
        for end, number in zip(ends, numbers, strict=True):
            if number is None:
                return f"cannot convert string to integer for index: {quoted(end)}"
            if number >= completions:
                return f"too large index: {quoted(end)}"
        first, final = numbers[0] or 0, numbers[-1] or 0
        if len(ends) == 2 and first >= final:
            return f"non-increasing order, previous: {first}, current: {final}"
        if last >= first and total:
            return f"non-increasing order, previous: {last}, current: {first}"
        total += final - first + 1
        last = final
    return total


# ------------------------------------------------------------------ CronJobs


def cron_job_problems(document: Section, pod: Pod) -> Iterator[Problem]:
    meta, spec = document.child("metadata"), document.child("spec")
    yield from object_metadata(meta, subdomain_errors)
    schedule, field = spec.text("schedule"), spec.at("schedule")
    if not schedule:
        yield required(field)
    elif (error := schedule_error(schedule)) is not None:
        yield invalid(field, schedule, error)
    if "TZ" in schedule:
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        yield invalid(field, schedule, detail)
    for name in (
        "startingDeadlineSeconds",
        "successfulJobsHistoryLimit",
        "failedJobsHistoryLimit",
    ):
        yield from nonnegative(spec.at(name), spec.maybe_number(name))
    yield from _time_zone(spec)
    policy, policies = spec.text("concurrencyPolicy"), ("Allow", "Forbid", "Replace")
    if policy and policy not in policies:
        yield not_supported(spec.at("concurrencyPolicy"), JsonText(policy), policies)
    inner = spec.child("jobTemplate").child("spec")
    yield from _job_spec(inner, pod)
    if (selector := inner.maybe_child("selector")) is not None:
        detail = "`selector` will be auto-generated"
        yield invalid(selector.path, selector_json(selector), detail)
    if inner.flag("manualSelector"):
        yield not_supported(inner.at("manualSelector"), True, ("nil", "false"))
    name = object_name(meta)
    if bytes_of(name) > _CRON_NAME_MAX:
        yield invalid(meta.at("name"), name, f"must be no more than {_CRON_NAME_MAX} characters")


def _time_zone(spec: Section) -> Iterator[Problem]:
    """Check the form of a time zone. Whether there is one of that name is not checked."""
    zone, field = spec.maybe_text("timeZone"), spec.at("timeZone")
    if zone is None:
        return
    if not zone:
        yield invalid(field, JsonText(zone), "timeZone must be nil or non-empty string")
    elif any(
        part in {".", ".."} or part.startswith("-") or not _ZONE_PART.fullmatch(part)
        for part in zone.split("/")
    ):
        yield invalid(field, JsonText(zone), f"unknown time zone {zone}")
    elif zone.lower() == "local":
        detail = (
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        )
        yield invalid(field, JsonText(zone), detail)
