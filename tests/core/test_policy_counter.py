import pytest

from bursar.core.counting.counter import Counted, Pending
from bursar.core.counting.counters import Counters
from bursar.core.counting.kind_state import KindState
from bursar.core.counting.pod_body import PodBody
from bursar.core.counting.policies import SYNCING
from bursar.core.counting.policy import CHARGES_MAX, VARIABLES_MAX, Failed, compile_policy, evaluate
from bursar.core.model.namespace import NamespaceObject
from bursar.core.quota.ledger import PodKey
from support.cel.recorded import LANGUAGE
from support.counting.policies import SATURDAY, a_counter, a_policy, a_row
from support.counting.table_counter import TableCounter

GPU = "requests.nvidia.com/gpu"
MANY_NAMES = [f"n{at}" for at in range(CHARGES_MAX + 1)]
GPU_SPEC = {
    "nodeSelector": {"pool": "cheap"},
    "containers": [{"name": "a", "resources": {"requests": {"nvidia.com/gpu": "2"}}}],
}
MONDAY = SATURDAY + 2 * 86_400


TEN = "[0,1,2,3,4,5,6,7,8,9]"
NESTED_LOOPS = f"{TEN}.map(a, {TEN}.map(b, {TEN}.map(c, {TEN}.map(d, {TEN}.map(e, e))))).size()"


def charge(counter, row):
    counter.see_pod(row)
    answer = counter.count(row)
    if isinstance(answer, Counted):
        return {name: str(amount) for name, amount in answer.amounts.items()}
    return answer


NOTEBOOKS = a_policy(
    "notebooks",
    match="object.metadata.?labels['notebook-name'].hasValue()",
    charges={"instances/notebook": "1"},
)
WEEKENDS = a_policy(
    "weekends",
    match=f"'{GPU}' in native && object.spec.?nodeSelector.?pool == optional.of('cheap')",
    charges={GPU: f"variables.weekend ? native['{GPU}'].add(native['{GPU}']) : native['{GPU}']"},
    variables=(("weekend", "now.getDayOfWeek('Europe/Berlin') in [0, 6]"),),
    keeps_native=True,
)
HELPERS = a_policy(
    "helpers",
    match="'cdi.kubevirt.io' in object.metadata.?labels.orValue({}) || "
    "object.metadata.?ownerReferences.orValue([]).exists(o, o.kind == 'VirtualMachineExport')",
    is_ignored=True,
)


# ------------------------------------------------------------------ the worked examples


def test_pod_of_a_notebook_counts_as_one_notebook():
    counter = a_counter(NOTEBOOKS)
    assert charge(counter, a_row(labels={"notebook-name": "x"})) == {"instances/notebook": "1"}
    assert charge(counter, a_row("web", labels={"app": "web"})) is None
    assert charge(counter, a_row("bare")) is None


def test_gpus_of_the_cheap_pool_count_double_on_weekends():
    counter = a_counter(WEEKENDS)
    row = a_row(spec=GPU_SPEC)
    assert charge(counter, row)[GPU] == "4"
    assert charge(counter, row)["pods"] == "1"
    assert counter.set_time(MONDAY) == [row]
    assert charge(counter, row)[GPU] == "2"


def test_helper_pods_of_cdi_and_of_exports_cost_nothing():
    counter = a_counter(HELPERS)
    assert charge(counter, a_row("importer", labels={"cdi.kubevirt.io": "importer"})) == {}
    export = [{"kind": "VirtualMachineExport", "name": "e", "uid": "1", "apiVersion": "v1"}]
    assert charge(counter, a_row("export", ownerReferences=export)) == {}
    assert counter.count(a_row("export", ownerReferences=export)).reason == "helpers: ignored"
    assert charge(counter, a_row("other")) is None


# ------------------------------------------------------------------ several policies


def test_charges_of_several_policies_add_up_and_native_is_kept_once():
    counter = a_counter(
        a_policy("a", charges={"instances/x": "1", "cpu": "native['cpu']"}, keeps_native=True),
        a_policy("b", charges={"instances/x": "'500m'"}, keeps_native=True),
    )
    row = a_row()
    counter.see_pod(row)
    answer = counter.count(row)
    assert answer.reason == ("a: cpu 500m, instances/x 1; b: instances/x 500m; the rest natively")
    found = {name: str(amount) for name, amount in answer.amounts.items()}
    assert (found["instances/x"], found["cpu"], found["memory"]) == ("1500m", "500m", "1Gi")


@pytest.mark.parametrize(
    ("charge_text", "words"),
    [
        ("object.metadata.labels.size", "no such key: labels"),
        ("native['nothing']", "no such key: nothing"),
        ("-1", "it gives -1, which no pod can cost"),
        ("quantity('1').sub(quantity('2'))", "it gives -1, which no pod can cost"),
        ("dyn('many')", "quantities must match"),
        ("dyn(true)", "neither an int nor a quantity"),
        ("dyn('1e400')", "which no pod can cost"),
        ("object.metadata.name + 'x'", "quantities must match"),
        (NESTED_LOOPS, "costs too much"),
    ],
)  # fmt: skip
def test_pod_without_an_amount_waits_with_policy_expression_and_error(charge_text, words):
    answer = charge(a_counter(a_policy("bad", charges={"x": charge_text})), a_row())
    assert isinstance(answer, Pending)
    assert answer.detail.startswith("bad: x: ")
    assert charge_text[:40] in answer.detail
    assert words in answer.detail
    assert len(answer.detail) < 600


def test_pod_on_which_the_match_fails_waits():
    answer = charge(a_counter(a_policy("m", match="object.metadata.labels.app == 'x'")), a_row())
    assert answer == Pending("m: match: object.metadata.labels.app == 'x': no such key: labels")
    answer = charge(a_counter(a_policy("m", match="object.metadata.name")), a_row())
    assert "neither true nor false" in answer.detail


def test_weird_pod_holds_only_itself():
    counter = a_counter(a_policy("sizes", charges={"x": "int(object.metadata.annotations.size)"}))
    assert isinstance(charge(counter, a_row("odd", annotations={"size": "many"})), Pending)
    assert charge(counter, a_row("fine", annotations={"size": "3"})) == {"x": "3"}


def test_fault_of_the_evaluator_holds_one_pod():
    policy = compile_policy(a_policy(match="object.a == 1"), LANGUAGE)
    assert evaluate(policy, {}) == Failed(
        "match: object.a == 1: internal error: KeyError('object')"
    )


# ------------------------------------------------------------------ invalid policies


def test_policy_without_a_valid_match_counts_nothing():
    counter = a_counter(a_policy("broken", match="object.spec."))
    assert charge(counter, a_row()) is None
    assert counter.find("broken").problems[0].text == (
        "spec.match: 1:13: syntax error: expected the name of a field or a method, "
        "found end of the expression"
    )


def test_pods_of_a_policy_with_an_invalid_charge_wait():
    counter = a_counter(
        a_policy("broken", match="object.metadata.name == 'nb-0'", charges={"x": "1 +"})
    )
    answer = charge(counter, a_row())
    assert answer.detail.startswith("broken: the policy is not valid: spec.charges")
    assert charge(counter, a_row("other")) is None


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (a_policy(mode="shadow"), "spec.mode: 'shadow' is not one of: Enforce, Shadow"),
        (a_policy(charges={}), "spec.charges: give either charges or ignore"),
        (a_policy(charges={"x": "1"}, is_ignored=True), "spec.charges: give either"),
        (a_policy(is_ignored=True, keeps_native=True), "spec.keepNative: "),
        (a_policy(charges={"a b": "1"}), 'spec.charges["a b"]: this is not the name'),
        (a_policy(charges=dict.fromkeys(MANY_NAMES, "1")), "spec.charges: 33 names"),
        (a_policy(charges={"x": "true"}), 'spec.charges["x"]: 1:1: the expression gives bool'),
        (a_policy(match="1"), "spec.match: 1:1: the expression gives int"),
        (a_policy(match="nope"), "spec.match: 1:1: undeclared reference to 'nope'"),
        (a_policy(variables=(("1x", "1"),)), "spec.variables[0].name: '1x' is not the name"),
        (a_policy(variables=(("x", "1"), ("x", "2"))), "spec.variables[1].name: x exists"),
        (a_policy(variables=(("x", "y"),)), "spec.variables[0].expression: 1:1: undeclared"),
        (a_policy(variables=tuple((f"v{i}", "1") for i in range(VARIABLES_MAX + 1))),
         "spec.variables: 33 variables"),
    ],
)  # fmt: skip
def test_problem_names_its_field(policy, words):
    problems = compile_policy(policy, LANGUAGE).problems
    assert any(each.text.startswith(words) for each in problems), problems


# ------------------------------------------------------------------ shadow mode


def test_shadow_policy_charges_nothing_and_reports_what_it_would():
    shadow = a_policy("try", charges={"x": "int(object.metadata.annotations.n)"}, mode="Shadow")
    counter = a_counter(shadow)
    for name, n in (("a", "1"), ("b", "2"), ("c", "many")):
        assert charge(counter, a_row(name, annotations={"n": n})) is None
    assert charge(counter, a_row("d", namespace="web", annotations={"n": "5"})) is None
    counter.see_policy(a_policy("other", match="object.metadata.name == 'a'", mode="Shadow"))
    for name, n in (("a", "1"), ("b", "2"), ("c", "many")):
        charge(counter, a_row(name, annotations={"n": n}))
    charge(counter, a_row("d", namespace="web", annotations={"n": "5"}))
    report, other = counter.report()
    assert other.namespaces["ml"].pods == 1
    ml, web = report.namespaces["ml"], report.namespaces["web"]
    assert (ml.pods, ml.failed, str(ml.amounts["x"])) == (3, 1, "3")
    assert (web.pods, str(web.amounts["x"])) == (1, "5")
    assert not counter.may_charge("x")
    counter.lose_pod(PodKey("web", "d"))
    counter.lose_pod(PodKey("ml", "unknown"))
    counter.see_pod(a_row("a", annotations={"n": "1"}, phase="Succeeded"))
    assert counter.report()[0].namespaces.keys() == {"ml"}
    assert counter.report()[0].namespaces["ml"].pods == 2


def test_shadow_policy_is_reported_beside_what_the_pods_cost_now():
    shadow = a_policy("try", match="object.metadata.name != 'web'", mode="Shadow")
    counter, others = a_counter(shadow), TableCounter()
    counters = Counters((counter, others))
    others.table["vm"] = "requests.cpu=4"

    def count(row):
        counters.see_pod(row)
        counters.count(row)

    def present():
        (report,) = counter.report()
        amounts = report.namespaces["ml"].present
        return {name: str(each) for name, each in amounts.items() if "cpu" in name}

    for name in ("web", "a", "vm"):
        count(a_row(name))
    assert present() == {"cpu": "500m", "requests.cpu": "4500m"}

    others.table["vm"] = "requests.cpu=8"
    counters.count(a_row("vm"))
    assert present() == {"cpu": "500m", "requests.cpu": "8500m"}

    # A resize that is asked for changes nothing before it is granted.
    larger = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}
    counters.count(a_row("a", spec=larger))
    assert present() == {"cpu": "500m", "requests.cpu": "8500m"}
    count(a_row("a", spec=larger, version="2"))
    assert present() == {"cpu": "2", "requests.cpu": "10"}

    counters.lose_pod(PodKey("ml", "a"))
    assert present() == {"requests.cpu": "8"}
    others.table["vm"] = Pending("not listed")
    counters.count(a_row("vm"))
    assert present() == {"cpu": "500m", "requests.cpu": "500m"}
    counters.lose_pod(PodKey("ml", "vm"))
    assert counter.report()[0].namespaces == {}


# ------------------------------------------------------------------ what changes an answer


def test_answers_follow_the_policies():
    counter = a_counter(is_synced=False)
    row = a_row()
    assert charge(counter, row) == SYNCING
    assert list(counter.set_state(KindState.SYNCED)) == [row]
    assert charge(counter, row) is None
    policy = a_policy(generation=1)
    assert list(counter.see_policy(policy)) == [row]
    assert list(counter.see_policy(policy)) == []
    assert charge(counter, row) == {"instances/notebook": "1"}
    assert counter.may_charge("instances/notebook")
    assert [each.text for each in counter.policies] == [policy]
    assert list(counter.lose_policy(policy)) == [row]
    assert list(counter.lose_policy(policy)) == []
    assert charge(counter, row) is None
    counter.see_policy(policy)
    assert list(counter.set_state(KindState.ABSENT)) == [row]
    assert list(counter.set_state(KindState.ABSENT)) == []
    assert charge(counter, row) is None


def test_answers_follow_the_labels_of_the_namespace():
    team = "namespaceObject.metadata.labels.team == 'a' ? 1 : 2"
    counter = a_counter(a_policy(charges={"x": team}))
    row = a_row()
    assert charge(counter, row) == Pending("the namespace ml is not known yet")
    ml = NamespaceObject(name="ml", resource_version="1", labels={"team": "a"})
    assert list(counter.see_namespace(ml)) == [row]
    assert charge(counter, row) == {"x": "1"}
    counter.see_namespace(NamespaceObject(name="ml", resource_version="2", labels={"team": "b"}))
    assert charge(counter, row) == {"x": "2"}
    assert list(counter.lose_namespace(ml)) == []


def test_namespace_and_time_cost_nothing_if_no_policy_names_them():
    counter = a_counter(a_policy())
    counter.see_pod(a_row())
    assert list(counter.see_namespace(NamespaceObject(name="ml"))) == []
    assert list(counter.set_time(SATURDAY + 60)) == []
    assert list(counter.set_time(MONDAY)) == []


def test_one_policy_can_be_tried_on_a_pod():
    counter = a_counter(a_policy(mode="Shadow"))
    (policy,) = counter.policies
    assert counter.trial(policy.text, a_row()).reason == "p: instances/notebook 1"
    assert counter.trial(a_policy(match="false"), a_row()) is None
    assert isinstance(counter.trial(policy.text, a_row(derive=lambda _: None)), Pending)


def test_pod_that_is_only_asked_about_leaves_no_trace():
    counter = a_counter(a_policy(mode="Shadow"), a_policy("other", charges={"x": "1"}))
    counter.count(a_row("trial"))
    assert all(not each.namespaces for each in counter.report())


def test_pod_is_evaluated_again_only_if_it_changed():
    counter = a_counter(a_policy())
    row = a_row()
    counter.see_pod(row)
    first = counter.count(row)
    assert counter.count(row) is first
    changed = a_row(version="2")
    counter.see_pod(changed)
    assert counter.count(changed) is not first


def test_resize_that_is_asked_for_is_counted_by_its_own_body():
    counter = a_counter(a_policy(charges={"x": "native['cpu']"}))
    row = a_row()
    assert charge(counter, row) == {"x": "500m"}
    larger = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}
    asked = counter.count(a_row(spec=larger))
    assert str(asked.amounts["x"]) == "2"
    assert str(counter.report()[0].namespaces["ml"].amounts["x"]) == "500m"
    assert charge(counter, row) == {"x": "500m"}


def test_pod_without_a_readable_body_waits():
    counter = a_counter(a_policy())
    without = charge(counter, a_row(derive=lambda _: None))
    assert without == Pending("the pod was read without its body; it is counted when it changes")
    broken = counter.derive_facts(b"[]")
    assert isinstance(broken, PodBody)
    answer = charge(counter, a_row(version="2", derive=lambda _: (broken,)))
    assert answer == Pending("the pod cannot be read: its body is not a JSON object")
