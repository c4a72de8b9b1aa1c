"""Decoding of quotas that cannot be read whole.

A quota that cannot be read must not let pods through: it is not known what it limits. So the parts
that decide which pods it may cover are read one by one. A part that cannot be read restricts
nothing: such a quota may cover more pods than it was meant to, and never fewer. The books hold all
of them back.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final, TypeVar

import msgspec

from bursar.core.model.resources import nothing
from bursar.core.model.selectors.selector import readable_part
from bursar.core.quota.coverage import OWN_LIMITS_MAX, TOO_MANY_LIMITS, own_limits_of
from bursar.core.quota.quota import NamespaceSelector, Quota, QuotaKey, QuotaKind, QuotaObject
from bursar.core.quota.scopes import ScopeRule
from bursar.wire.documents.tree import Value
from bursar.wire.quota.objects import (
    ClusterQuota,
    NamespacedQuota,
    NamespacesSelector,
    QuotaSpec,
    assembled,
    decode_quota,
    label_selector,
    report_of,
    scopes_of,
)
from bursar.wire.structs.fields import FieldError, decode_texts, printable, quoted
from bursar.wire.structs.metadata import ObjectMeta, required_name
from bursar.wire.structs.shape import shaped
from bursar.wire.structs.struct import Struct

Typed = TypeVar("Typed", bound=Struct)

SCOPES_MAX: Final = 1024
"""Most rules and values in the scopes of a quota of a namespace."""
PROBLEM_LENGTH_MAX: Final = 1000
"""Length of the text of a problem: each pod that waits for the quota has it in its reason."""


def read_quota(kind: QuotaKind, body: bytes) -> QuotaObject:
    """Decode a quota of AAQ's kinds or of OpenShift's, or as much of it as can be read.

    `Quota.problem` says what cannot be read. Raises `ValueError` if that is the metadata.

    A quota of a namespace that is too large to be in force has a problem as well, and neither
    limits nor scopes are kept of it: a tenant may write many of a megabyte.
    """
    read = _read_quota(kind, body)
    quota = read.quota
    problem = _size_problem(quota) if kind is QuotaKind.NAMESPACED else ""
    if not problem:
        return read
    bare = replace(quota, hard=nothing(), scopes=(), problem=quota.problem or problem)
    return replace(read, quota=bare)


def _size_problem(quota: Quota) -> str:
    if own_limits_of(quota) > OWN_LIMITS_MAX:
        return TOO_MANY_LIMITS
    if sum(1 + len(rule.values) for rule in quota.scopes) > SCOPES_MAX:
        return f"its scopes have more than {SCOPES_MAX} rules and values"
    return ""


def _read_quota(kind: QuotaKind, body: bytes) -> QuotaObject:
    try:
        read = decode_quota(kind, body)
    except FieldError as error:
        return _partial(kind, body, str(error))
    unreadable = next((rule for rule in read.quota.scopes if not rule.is_readable), None)
    return read if unreadable is None else _partial(kind, body, _rule_problem(unreadable))


def _rule_problem(rule: ScopeRule) -> str:
    values = ", ".join(rule.values)
    return f"scope {quoted(rule.scope)}, operator {quoted(rule.operator)}, values [{values}]"


def _partial(kind: QuotaKind, body: bytes, problem: str) -> QuotaObject:
    try:
        tree = _object(msgspec.json.decode(body))
    except RecursionError:
        raise FieldError("", problem) from None
    holder: type[ClusterQuota | NamespacedQuota] = NamespacedQuota
    spec = inner = _object(tree.get("spec"))
    if kind.is_cluster_wide:
        holder, inner = ClusterQuota, _object(spec.get("quota"))
    meta = shaped({"metadata": tree.get("metadata")}, NamespacedQuota).metadata or ObjectMeta()
    report = report_of(_read(holder, status=tree.get("status")))
    quota = Quota(
        key=QuotaKey(kind, meta.namespace or "", required_name(meta)),
        uid=meta.uid or "",
        scopes=tuple(_readable_rules(inner)),
        selector=_selector(_object(spec.get("selector")), frozenset(report.namespaces))
        if kind.is_cluster_wide
        else None,
        problem=printable(problem, PROBLEM_LENGTH_MAX),
    )
    return assembled(quota, meta, report, spec=spec if kind.is_cluster_wide else None)


def _readable_rules(spec: Mapping[str, Value]) -> Iterator[ScopeRule]:
    for part in ("scopes", "scopeSelector"):
        read = _read(QuotaSpec, **{part: spec.get(part)})
        yield from (rule for rule in scopes_of(read) if rule.is_readable)


def _selector(raw: Mapping[str, Value], covered: frozenset[str]) -> NamespaceSelector:
    """The readable part of a selector, and the namespaces that the quota covered last."""
    labels = _read(NamespacesSelector, labels=raw.get("labels")).labels
    annotations = _read(NamespacesSelector, annotations=raw.get("annotations")).annotations
    return NamespaceSelector(
        labels=None if labels is None else readable_part(label_selector(labels)),
        annotations=decode_texts(annotations),
        names=covered,
    )


def _object(value: object) -> dict[str, Value]:
    return value if isinstance(value, dict) else {}


def _read(kind: type[Typed], **fields: Value) -> Typed:
    """The struct with these fields; without any, if they cannot be read."""
    try:
        return shaped(fields, kind)
    except FieldError:
        return kind()
