"""The pod counter of CountingPolicies.

Several policies that match a pod each count it, and their charges add up. An answer is kept until
the pod, the policies, its namespace or the quarter of an hour changes.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Final, NamedTuple

from bursar.core.cel.expression import Language
from bursar.core.cel.values import Timestamp
from bursar.core.counting.counter import Counted, Pending, fact_of
from bursar.core.counting.kind_state import KindState
from bursar.core.counting.pod_body import PodBody
from bursar.core.counting.policy import (
    NAMESPACE,
    NOW,
    NOW_STEP_S,
    Charged,
    Failed,
    Policy,
    PolicyMode,
    PolicyText,
    compile_policy,
    evaluate,
)
from bursar.core.model.namespace import NamespaceObject
from bursar.core.model.pod_row import TOO_MANY_NAMES, PodRow
from bursar.core.model.resources import ResourceList, add, subtract
from bursar.core.quota.account import FORMATS, NO_CHARGE, Charge, to_quantity
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.usage import native_usage

ReadBody = Callable[[PodBody], object]
"""The pod as plain values of JSON. Raises `ValueError`."""
KeepBody = Callable[[bytes], Hashable | None]

SYNCING: Final = Pending("the policies have not been listed yet")
NANOS: Final = 10**9


class _Answer(NamedTuple):
    """What the policies say of one pod."""

    stamp: object
    """The pod's uid and resourceVersion, packed."""
    body: PodBody | None
    """A resize that is asked for has the stamp of the present pod, and another body."""
    revision: int
    namespace_version: str
    enforced: Counted | Pending | None
    parts: "tuple[tuple[str, Charged | Failed], ...]"
    """What each policy that matches says, by its name."""


class PolicyTotals(NamedTuple):
    """What a policy charges, or in shadow mode would charge, in one namespace."""

    pods: int
    failed: int
    """Pods for which an expression has no result."""
    amounts: ResourceList
    present: ResourceList
    """What the same pods cost as all counters count them now."""


NO_TOTALS: Final = PolicyTotals(0, 0, {}, {})


class PolicyReport(NamedTuple):
    """A policy, and by namespace what it charges, or in shadow mode would charge."""

    policy: Policy
    namespaces: Mapping[str, PolicyTotals]


class PolicyCounter:
    """Counts pods by the policies that there are."""

    name: Final = "policy"

    def __init__(self, language: Language, keep_body: KeepBody, read_body: ReadBody) -> None:
        self._language, self._keep_body, self._read_body = language, keep_body, read_body
        self._policies: dict[str, Policy] = {}
        self._namespaces: dict[str, NamespaceObject] = {}
        self._rows: dict[str, dict[str, PodRow]] = {}
        """By namespace and name."""
        self._answers: dict[PodKey, _Answer] = {}
        self._present: dict[PodKey, Charge] = {}
        """What pods with an answer cost as all counters count them now."""
        self._totals: dict[str, dict[str, PolicyTotals]] = {}
        self._state = KindState.SYNCING
        self._now_s = 0
        self._revision = 0

    # ------------------------------------------------------------------ what there is

    @property
    def policies(self) -> Iterable[Policy]:
        return self._policies.values()

    def find(self, name: str) -> Policy | None:
        return self._policies.get(name)

    def see_policy(self, text: PolicyText) -> Iterable[PodRow]:
        known = self._policies.get(text.name)
        if known is not None and known.text == text:
            return ()
        self._policies[text.name] = compile_policy(text, self._language)
        return self._changed()

    def lose_policy(self, text: PolicyText) -> Iterable[PodRow]:
        return () if self._policies.pop(text.name, None) is None else self._changed()

    def set_state(self, state: KindState) -> Iterable[PodRow]:
        if state is self._state:
            return ()
        self._state = state
        if state is not KindState.SYNCED:
            self._policies.clear()
        return self._changed()

    def see_namespace(self, namespace: NamespaceObject) -> Iterable[PodRow]:
        self._namespaces[namespace.name] = namespace
        if not self._uses(NAMESPACE):
            return ()
        return list(self._rows.get(namespace.name, {}).values())

    def lose_namespace(self, namespace: NamespaceObject) -> Iterable[PodRow]:
        self._namespaces.pop(namespace.name, None)
        return ()

    def set_time(self, now_s: int) -> Iterable[PodRow]:
        """Tell the time. Pods are counted again if a policy depends on it."""
        now_s -= now_s % NOW_STEP_S
        if now_s == self._now_s:
            return ()
        self._now_s = now_s
        return self._changed() if self._uses(NOW) else ()

    def _uses(self, variable: str) -> bool:
        return any(variable in each.uses for each in self._policies.values())

    def _changed(self) -> Iterable[PodRow]:
        self._revision += 1
        return [row for rows in self._rows.values() for row in rows.values()]

    # ------------------------------------------------------------------ the port

    def derive_facts(self, body: bytes) -> Hashable | None:
        return self._keep_body(body)

    def see_pod(self, row: PodRow) -> Iterable[PodRow]:
        key = PodKey(row.namespace, row.name)
        self._rows.setdefault(row.namespace, {})[row.name] = row
        if row.is_terminated:
            self._keep(key, None)
        return ()

    def lose_pod(self, pod: PodKey) -> Iterable[PodRow]:
        rows = self._rows.get(pod.namespace, {})
        rows.pop(pod.name, None)
        if not rows:
            self._rows.pop(pod.namespace, None)
        self._keep(pod, None)
        return ()

    def count(self, row: PodRow) -> Counted | Pending | None:
        if self._state is KindState.SYNCING:
            return SYNCING
        return self._answer(row).enforced if self._policies else None

    def trial(self, text: PolicyText, row: PodRow) -> Counted | Pending | None:
        """What one policy alone would answer for a pod if it were enforced."""
        held = self._namespaces.get(row.namespace)
        values = self._values(row, held)
        if isinstance(values, Pending):
            return values
        policy = compile_policy(text, self._language)
        found = evaluate(policy, values)
        native = native_usage(row.demand, is_counted=True)
        return None if found is None else _combined([(policy, found)], native)

    def may_charge(self, resource: str) -> bool:
        # A quota must not be reported for a policy that is not listed yet.
        return self._state is KindState.SYNCING or any(
            resource in each.charges and each.mode is PolicyMode.ENFORCE
            for each in self._policies.values()
        )

    def report(self) -> tuple[PolicyReport, ...]:
        """What each policy charges, or would charge, by namespace."""
        return tuple(
            PolicyReport(policy, dict(self._totals.get(name, {})))
            for name, policy in self._policies.items()
        )

    # ------------------------------------------------------------------ answers

    def _answer(self, row: PodRow) -> _Answer:
        key = PodKey(row.namespace, row.name)
        held = self._namespaces.get(row.namespace)
        version = "" if held is None or not self._uses(NAMESPACE) else held.resource_version
        known = self._answers.get(key)
        body = fact_of(row, PodBody)
        if (
            known is not None
            and known.stamp == row.packed_stamp
            and known.body == body
            and known.revision == self._revision
            and known.namespace_version == version
        ):
            return known
        enforced, parts = self._evaluated(row, held)
        answer = _Answer(row.packed_stamp, body, self._revision, version, enforced, parts)
        present = self._rows.get(row.namespace, {}).get(row.name)
        if present is not None and fact_of(present, PodBody) == body:
            self._keep(key, answer)
        return answer

    def _keep(self, key: PodKey, answer: _Answer | None) -> None:
        """Replace the answer for a pod, and its part of the totals."""
        self._keep_present(key, NO_CHARGE)
        before = self._answers.pop(key, None)
        for name, part in () if before is None else before.parts:
            self._add(name, key.namespace, part, -1)
        if answer is not None:
            self._answers[key] = answer
            for name, part in answer.parts:
                self._add(name, key.namespace, part, 1)

    def _add(self, policy: str, namespace: str, part: Charged | Failed, sign: int) -> None:
        totals = self._totals.setdefault(policy, {})
        held = totals.get(namespace, NO_TOTALS)
        if isinstance(part, Failed):
            found = held._replace(pods=held.pods + sign, failed=held.failed + sign)
        else:
            amounts = (add if sign > 0 else subtract)(held.amounts, part.amounts)
            found = held._replace(pods=held.pods + sign, amounts=amounts)
        if found.pods:
            totals[namespace] = found
        else:
            del totals[namespace]

    def see_charge(self, row: PodRow, charge: Charge) -> None:
        key = PodKey(row.namespace, row.name)
        answer = self._answers.get(key)
        # A resize that is asked for is counted as well, and is not the pod as it is.
        if answer is not None and answer.body == fact_of(row, PodBody):
            self._keep_present(key, charge)

    def _keep_present(self, key: PodKey, charge: Charge) -> None:
        """Replace what a pod costs now in the totals of the policies that match it."""
        before = self._present.get(key, NO_CHARGE)
        if before is charge:
            return
        answer = self._answers[key]
        for name, _ in answer.parts:
            totals = self._totals[name]
            held = totals[key.namespace]
            changed = subtract(add(held.present, _amounts(charge)), _amounts(before))
            present = {each: amount for each, amount in changed.items() if not amount.is_zero}
            totals[key.namespace] = held._replace(present=present)
        if charge is NO_CHARGE or not answer.parts:
            self._present.pop(key, None)
        else:
            self._present[key] = charge

    def _evaluated(
        self, row: PodRow, namespace: NamespaceObject | None
    ) -> tuple[Counted | Pending | None, tuple[tuple[str, Charged | Failed], ...]]:
        values = self._values(row, namespace)
        if isinstance(values, Pending):
            return values, ()
        found = [(each, evaluate(each, values)) for each in self._policies.values()]
        matched = [(policy, each) for policy, each in found if each is not None]
        enforced = [pair for pair in matched if pair[0].mode is PolicyMode.ENFORCE]
        native = native_usage(row.demand, is_counted=True)
        parts = tuple((policy.text.name, each) for policy, each in matched)
        return _combined(enforced, native), parts

    def _values(
        self, row: PodRow, namespace: NamespaceObject | None
    ) -> dict[str, object] | Pending:
        if row.demand.rest is not None:
            return Pending(TOO_MANY_NAMES)
        body = fact_of(row, PodBody)
        if body is None:
            return Pending("the pod was read without its body; it is counted when it changes")
        if namespace is None and self._uses(NAMESPACE):
            return Pending(f"the namespace {row.namespace} is not known yet")
        try:
            pod = self._read_body(body)
        except ValueError as error:
            return Pending(f"the pod cannot be read: {error}")
        return {
            "object": pod,
            NAMESPACE: _namespace_value(namespace),
            "native": dict(native_usage(row.demand, is_counted=True)),
            NOW: Timestamp(self._now_s * NANOS),
        }


def _combined(
    enforced: list[tuple[Policy, Charged | Failed]], native: ResourceList
) -> Counted | Pending | None:
    if not enforced:
        return None
    failed: list[str] = []
    reasons: list[str] = []
    amounts: ResourceList = {}
    for policy, each in enforced:
        if isinstance(each, Failed):
            failed.append(f"{policy.text.name}: {each.detail}")
        else:
            amounts = add(amounts, each.amounts)
            reasons.append(f"{policy.text.name}: {_shown(each.amounts)}")
    if failed:
        return Pending("; ".join(failed))
    if any(policy.text.keeps_native for policy, _ in enforced):
        amounts = {**native, **amounts}
        reasons.append("the rest natively")
    return Counted(amounts, "; ".join(reasons))


def _amounts(charge: Charge) -> ResourceList:
    return {
        name: to_quantity(nanos, FORMATS[style]) for name, (nanos, style) in charge.amounts.items()
    }


def _shown(amounts: ResourceList) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in amounts.items()) or "ignored"


def _namespace_value(namespace: NamespaceObject | None) -> dict[str, object]:
    if namespace is None:
        return {}
    metadata: dict[str, object] = {
        "name": namespace.name,
        "uid": namespace.uid,
        "labels": dict(namespace.labels),
        "annotations": dict(namespace.annotations),
    }
    return {"metadata": metadata, "status": {"phase": namespace.phase}}
