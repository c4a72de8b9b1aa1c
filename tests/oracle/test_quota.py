"""Quotas: what pods use up, which scopes they are in, sums over many, and the words of a no."""

import json
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

from hypothesis import strategies as st

from bursar.core.model.pod_row import PodRow, row_of
from bursar.core.model.quantity import ZERO, Quantity
from bursar.core.model.resources import ResourceList, add
from bursar.core.quota.names import is_pod_name
from bursar.core.quota.quota import QuotaKey, QuotaKind
from bursar.core.quota.refusal import Shortage, refusals_of
from bursar.core.quota.scopes import EXISTS, ScopeRule, matches
from bursar.core.quota.usage import is_counted, native_usage
from bursar.wire.model.pod_row import PodRowDecoder
from support.builders.random_objects import HOSTILE_NAME, KNOWN, amounts, as_pod, pods

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
NOW_S = int(NOW.timestamp())


def written(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


# ------------------------------------------------------------------ pods with all that decides

PRIORITY_CLASSES = ["", "gold", "silver", "system-node-critical"]
GRACE = st.none() | st.sampled_from([0, 1, 30, 3600])
TERMS = st.fixed_dictionaries(
    {"topologyKey": st.just("zone")},
    optional={
        "namespaces": st.none() | st.lists(st.sampled_from(["default", "shop"]), max_size=2),
        "namespaceSelector": st.sampled_from([None, {}, {"matchLabels": {"a": "b"}}]),
    },
)
POD_AFFINITY = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "requiredDuringSchedulingIgnoredDuringExecution": st.lists(TERMS, max_size=2),
        "preferredDuringSchedulingIgnoredDuringExecution": st.lists(
            st.fixed_dictionaries({"weight": st.just(1), "podAffinityTerm": TERMS}), max_size=2
        ),
    },
)
AFFINITY = st.none() | st.fixed_dictionaries(
    {}, optional={"podAffinity": POD_AFFINITY, "podAntiAffinity": POD_AFFINITY}
)
DEVICES = "deviceclass.resource.kubernetes.io/gpu"


@st.composite
def charged_pods(draw: st.DrawFn, *, hostile: bool = False) -> dict[str, Any]:
    raw = draw(pods(hostile=hostile))
    meta, spec, status = raw["metadata"], raw["spec"], raw.setdefault("status", {})
    if draw(st.integers(0, 3)) == 0:  # nothing asked for: best effort
        spec["containers"], spec["initContainers"] = [{"name": "c0"}], []
    if draw(st.booleans()):
        spec["containers"][0].setdefault("resources", {})["requests"] = {
            **draw(amounts("cpu", "memory")),
            DEVICES: "2",
        }
    spec["priorityClassName"] = draw(st.sampled_from(PRIORITY_CLASSES))
    spec["activeDeadlineSeconds"] = draw(st.sampled_from([None, -1, 0, 1, 86_400]))
    spec["affinity"] = draw(AFFINITY)
    status["phase"] = draw(
        st.sampled_from(["Pending", "Running", "Running", "Succeeded", "Failed"])
    )
    status["qosClass"] = draw(st.sampled_from(["", "", "BestEffort", "Burstable", "Guaranteed"]))
    if draw(st.booleans()):
        grace_s = draw(GRACE)
        # Around the moment from which on it is not counted any more.
        late_s = (grace_s or 0) + draw(st.sampled_from([-3600, -1, 0, 1, 3600]))
        meta["deletionTimestamp"] = written(NOW - timedelta(seconds=late_s))
        meta["deletionGracePeriodSeconds"] = grace_s
    return raw


DECODER = PodRowDecoder()
"""One for all pods, so that a profile wrongly taken for another's shows."""


def rows(raw: dict[str, Any], *, hostile: bool) -> list[PodRow]:
    """The pod as offline files give it, and as a live watch does, which refuses some."""
    offline = [row_of(as_pod(raw))]
    return offline if hostile else [*offline, DECODER.decode(json.dumps(raw).encode())]


def used_by(row: PodRow) -> ResourceList:
    return native_usage(row.demand, is_counted=is_counted(row, NOW_S))


def view(amounts: ResourceList) -> dict[str, Any]:
    return {
        name: (str(amount), amount.value(), amount.milli_value(), amount.as_int64())
        for name, amount in amounts.items()
    }


def upstream_view(amounts: dict[str, Any]) -> dict[str, Any]:
    keys = ("text", "value", "milliValue", "int64")
    return {name: tuple(amount[key] for key in keys) for name, amount in amounts.items()}


# ------------------------------------------------------------------ rules

SCOPES = ["Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass"]
SCOPES += ["CrossNamespacePodAffinity"]
RULES = [
    ScopeRule(scope, operator, values)
    for scope in [*SCOPES, "Unknown", ""]
    for operator, values in (
        (EXISTS, ()),
        ("DoesNotExist", ()),
        ("In", ("gold", "silver")),
        ("NotIn", ("gold", "silver")),
    )
] + [
    ScopeRule("PriorityClass", operator, values)
    for operator, values in product(["In", "NotIn"], [("gold",), ("other",), ("",)])
]


def raw_rule(rule: ScopeRule) -> dict[str, Any]:
    return {"scopeName": rule.scope, "operator": rule.operator, "values": list(rule.values)}


def ask_pods(oracle: Any, batch: list[dict[str, Any]], *, hostile: bool) -> None:
    rules = [raw_rule(rule) for rule in RULES]
    answers = oracle.ask("quota_pods", pods=batch, now=written(NOW), rules=rules)
    for raw, answer in zip(batch, answers, strict=True):
        for row in rows(raw, hostile=hostile):
            oracle.assert_same(view(used_by(row)), upstream_view(answer["usage"]), about=raw)
            for rule, scope in zip(RULES, answer["scopes"], strict=True):
                assert "error" not in scope
                held = matches([rule], row.profile)
                oracle.assert_same(held, scope["matches"], about=(rule, raw))


def test_usage_and_scopes_of_pods_agree(oracle, for_all):
    batches = st.lists(charged_pods(), min_size=4, max_size=12)
    for_all(batches, lambda batch: ask_pods(oracle, batch, hostile=False), examples=60)


def test_usage_of_pods_the_api_refuses_agrees(oracle, for_all):
    batches = st.lists(charged_pods(hostile=True), min_size=4, max_size=12)
    for_all(batches, lambda batch: ask_pods(oracle, batch, hostile=True), examples=30)


def test_upstream_cannot_tell_classes_with_long_names_though_it_accepts_them(oracle):
    """Why Bursar compares the names itself."""
    rule = ScopeRule("PriorityClass", "In", ("x" * 64,))
    pod = {"metadata": {"name": "web"}, "spec": {"priorityClassName": "x" * 64}}
    selector = {"matchExpressions": [raw_rule(rule)]}
    quota = {
        "metadata": {"name": "q", "namespace": "n"},
        "spec": {"hard": {"pods": "1"}, "scopeSelector": selector},
    }

    (answer,) = oracle.ask("quota_pods", pods=[pod], now=written(NOW), rules=[raw_rule(rule)])
    (verdict,) = oracle.ask("validate_quotas", quotas=[quota])

    assert verdict["errors"] == []
    assert "must be no more than 63 bytes" in answer["scopes"][0]["error"]
    assert matches([rule], row_of(as_pod(pod)).profile)


# ------------------------------------------------------------------ names

QUOTA_NAMES = ["pods", "count/pods", "services", "requests.storage", "count/services", "cpu/vmi"]
QUOTA_NAMES += [f"requests.{DEVICES}", DEVICES, "memory/vmi", "instances/vmi", "requests.cpu/vmi"]


@st.composite
def quota_names(draw: st.DrawFn) -> str:
    prefix = draw(st.sampled_from(["", "requests.", "limits.", "count/", "requests.requests."]))
    return prefix + draw(st.sampled_from([*KNOWN, *QUOTA_NAMES]) | HOSTILE_NAME)


def test_names_that_pods_use_up_agree(agree):
    agree("quota_names", names=quota_names(), ours=is_pod_name, batch=(10, 30))


# ------------------------------------------------------------------ sums

HARD = st.lists(
    st.sampled_from(["pods", "count/pods", "services", "requests.storage", "cpu/vmi"])
    | st.sampled_from([*KNOWN, *(f"requests.{name}" for name in KNOWN)])
    | st.sampled_from(["limits.cpu", "limits.memory", "limits.ephemeral-storage"]),
    min_size=1,
    max_size=6,
    unique=True,
)


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    spec: dict[str, Any] = {"hard": dict.fromkeys(draw(HARD), "10")}
    if draw(st.booleans()):
        spec["scopes"] = draw(st.lists(st.sampled_from(SCOPES), max_size=2))
    if draw(st.booleans()):
        chosen = draw(st.lists(st.sampled_from(RULES), max_size=2))
        spec["scopeSelector"] = {"matchExpressions": [raw_rule(rule) for rule in chosen]}
    return spec


def rules_of(spec: dict[str, Any]) -> list[ScopeRule]:
    return [ScopeRule(scope, EXISTS) for scope in spec.get("scopes", ())] + [
        ScopeRule(raw["scopeName"], raw["operator"], tuple(raw["values"]))
        for raw in spec.get("scopeSelector", {}).get("matchExpressions", ())
    ]


def recounted(spec: dict[str, Any], listed: list[PodRow]) -> ResourceList:
    names = [name for name in spec["hard"] if is_pod_name(name)]
    total: ResourceList = dict.fromkeys(names, ZERO)
    for row in listed if names else ():
        if matches(rules_of(spec), row.profile):
            total = add(total, used_by(row))
    return {name: total[name] for name in names}


def ask_sums(oracle: Any, case: tuple[list[dict[str, Any]], list[dict[str, Any]]]) -> None:
    batch, quotas = case
    answers = oracle.ask("quota_sums", pods=batch, now=written(NOW), quotas=quotas)
    listed = [row_of(as_pod(raw)) for raw in batch]
    for spec, answer in zip(quotas, answers, strict=True):
        assert "error" not in answer
        ours = view(recounted(spec, listed))
        oracle.assert_same(ours, upstream_view(answer["used"]), about=(spec, batch))


def test_sums_over_pods_agree(oracle, for_all):
    cases = st.tuples(
        st.lists(charged_pods(), max_size=8), st.lists(specs(), min_size=4, max_size=8)
    )
    for_all(cases, lambda case: ask_sums(oracle, case), examples=60)


# ------------------------------------------------------------------ room for one more

AMOUNTS = ["0", "1", "2", "3", "250m", "1500m", "64Mi", "1Gi", "1.5Gi", "200M", "4e9", "100"]


@st.composite
def full_quotas(draw: st.DrawFn) -> dict[str, Any]:
    spec = draw(specs())
    amount = st.sampled_from(AMOUNTS)
    spec["hard"] = {name: draw(amount) for name in spec["hard"]}
    used = {name: draw(amount) for name in spec["hard"]}
    name = draw(st.sampled_from(["team", "batch", "a-quota"]))
    meta = {"name": name, "namespace": "default"}
    return {"metadata": meta, "spec": spec, "status": {"hard": spec["hard"], "used": used}}


def parsed(raw: dict[str, str]) -> dict[str, Quantity]:
    return {name: Quantity.parse(text) for name, text in raw.items()}


def refused(quotas: list[dict[str, Any]], row: PodRow) -> str | None:
    """The text of the first quota that has no room for the pod; None if there is room."""
    for quota in quotas:
        hard, used = parsed(quota["status"]["hard"]), parsed(quota["status"]["used"])
        if not any(map(is_pod_name, hard)) or not matches(rules_of(quota["spec"]), row.profile):
            continue
        asked = {n: q for n, q in used_by(row).items() if n in hard and not q.is_zero}
        after = {name: used[name] + amount for name, amount in asked.items()}
        key = QuotaKey(QuotaKind.NATIVE, "default", quota["metadata"]["name"])
        short = [
            Shortage(quota=key, resource=n, requested=asked[n], used=used[n], hard=hard[n])
            for n in sorted(after)
            if after[n] > hard[n]
        ]
        for refusal in refusals_of(short):
            return refusal.message().partition("; missing: ")[0]
    return None


def ask_checks(oracle: Any, cases: list[tuple[dict[str, Any], list[dict[str, Any]]]]) -> None:
    checks = [{"pod": pod, "quotas": quotas} for pod, quotas in cases]
    answers = oracle.ask("quota_checks", now=written(NOW), checks=checks)
    for (pod, quotas), answer in zip(cases, answers, strict=True):
        ours = refused(quotas, row_of(as_pod(pod)))
        theirs = answer.get("error")
        if theirs is not None:
            theirs = theirs.removeprefix('pods "web" is forbidden: ')
        oracle.assert_same(ours, theirs, about=(pod, quotas))


def test_room_and_the_words_of_its_absence_agree(oracle, for_all):
    case = st.tuples(charged_pods(), st.lists(full_quotas(), min_size=1, max_size=3))
    for_all(
        st.lists(case, min_size=4, max_size=10),
        lambda cases: ask_checks(oracle, cases),
        examples=60,
    )
