"""Which quotas Bursar reads otherwise than AAQ does, or cannot read, in sentences."""

from collections.abc import Iterator, Sequence
from typing import Final

from bursar.app.migration.findings import Finding, Level
from bursar.app.migration.state import State, TenantState
from bursar.app.quota.managed.names import managed_key
from bursar.app.quota.status_document import is_owned
from bursar.core.kubevirt.mode import VmiMode
from bursar.core.quota.names import is_schedulable
from bursar.core.quota.quota import Quota, QuotaKey, QuotaKind, QuotaObject
from bursar.core.quota.validation.spec import enforcement_problem
from bursar.core.quota.views.statement import counts_alike, delegated


def quota_findings(state: State, tenants: TenantState) -> Iterator[Finding]:
    """What is worth knowing about each quota."""
    by_key = {each.quota.key: each for each in tenants.quotas}
    ours = [each for each in tenants.quotas if each.quota.key.kind.holds_pods]
    counts = [sum(each.quota.key.kind is kind for each in ours) for kind in _KINDS]
    text = f"{counts[0]} of one namespace each and {counts[1]} cluster-wide. All stay as they are."
    yield Finding(Level.FACT, "quotas", text)
    for each in ours:
        is_delegated = tenants.has_cluster_resource_quotas
        for level, sentence in _sentences(each, state, is_delegated=is_delegated):
            yield Finding(level, str(each.quota.key), sentence)
        if each.quota.key.kind is QuotaKind.NAMESPACED or is_delegated:
            yield from _managed(each, by_key.get(managed_key(each.quota.key)))


_KINDS: Final = (QuotaKind.NAMESPACED, QuotaKind.CLUSTER)
SCOPES: Final = (
    "It has scopes. If it is full, AAQ holds back pods outside the scopes as well. Bursar holds "
    "back only pods in the scopes."
)


def _sentences(
    seen: QuotaObject, state: State, *, is_delegated: bool
) -> Iterator[tuple[Level, str]]:
    quota = seen.quota
    if quota.problem:
        text = f"Bursar cannot read it, and pods that it may cover wait: {quota.problem}."
        yield Level.TASK, text
        return
    problem = enforcement_problem(quota, is_delegated=is_delegated)
    if problem:
        yield Level.TASK, f"It is not in force as it is written: {problem}."
    if quota.scopes and quota.key.kind is QuotaKind.NAMESPACED:
        yield Level.CHANGE, SCOPES
    yield from _vm_names(quota, state)
    over = _exceeded(seen)
    if over:
        text = f"More is in use than is allowed ({over}). "
        yield Level.CHANGE, f"{text}Bursar releases no pod under it until pods have ended."
    place = quota.key.namespace
    if place and place not in state.gated_namespaces:
        yield Level.FACT, "Pods of its namespace are not gated, so it holds back no pod, as before."


def _vm_names(quota: Quota, state: State) -> Iterator[tuple[Level, str]]:
    limits = sorted(name for name in quota.hard if name.startswith("limits.") and _is_vmi(name))
    if limits:
        yield Level.CHANGE, f"Neither AAQ nor Bursar counts anything as {', '.join(limits)}."
    short = sorted(name for name in quota.hard if _is_vmi(name) and "." not in name)
    mode = "" if state.aaq is None else state.aaq.vmi_mode
    if short and mode in {"", VmiMode.DEDICATED.value}:
        text = f"It limits {', '.join(short)}. AAQ leaves these names to a ResourceQuota, "
        yield Level.CHANGE, f"{text}which does not count them; Bursar enforces them."


def _is_vmi(name: str) -> bool:
    return name.endswith("/vmi")


def _exceeded(seen: QuotaObject) -> str:
    used = seen.reported_used
    names: Sequence[str] = sorted(
        name for name, limit in seen.quota.hard.items() if name in used and used[name] > limit
    )
    return ", ".join(
        f"{name} {used[name]}/{seen.quota.hard[name]}" for name in names if is_schedulable(name)
    )


def _managed(owner: QuotaObject, managed: QuotaObject | None) -> Iterator[Finding]:
    """Bursar keeps AAQ's managed quota under the same name, with the same label and owner."""
    wanted = delegated(owner.quota.hard)
    key: QuotaKey = managed_key(owner.quota.key)
    if managed is None:
        if wanted:
            text = f"It is missing. Bursar creates it for {', '.join(sorted(wanted))}."
            yield Finding(Level.CHANGE, str(key), text)
        return
    if not wanted:
        yield Finding(Level.CHANGE, str(key), "Nothing is left to it. Bursar deletes it.")
    elif not is_owned(managed.labels, managed.owner_uid, owner.quota):
        text = (
            "Its label or its owner is missing. AAQ fails at it again and again; Bursar repairs it."
        )
        yield Finding(Level.CHANGE, str(key), text)
    elif not counts_alike(managed.quota, owner.quota):
        text = "Its scopes or namespaces are not those of its quota. AAQ does not change them; "
        text += "Bursar does."
        yield Finding(Level.CHANGE, str(key), text)
    elif managed.quota.hard != wanted:
        yield Finding(Level.CHANGE, str(key), "Its limits differ. Bursar writes them again.")
