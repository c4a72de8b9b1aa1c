"""What must hold of a whole controller."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from bursar.app.cluster.ports import Key
from bursar.app.quota.kinds import APPLICATION_QUOTAS
from bursar.core.model.quantity import Quantity
from support.histories.audit import parts_of
from support.histories.controller.acts import key_of, name_of
from support.histories.controller.truth import (
    POD_NAMES,
    Raw,
    Truth,
    cost_of,
    hard_of,
    is_waiting,
    ready_of,
    spec_of,
)

KEPT = (".counters", ".waiting._counts", ".waiting._lines", "._releases._namespaces", "._heap")
"""Of a bounded number: totals, empty lines, namespaces whose releases had no answer, old timers."""
WALKED = (
    "bursar.app.quota",
    "bursar.core.quota",
    "bursar.app.controller",
    "bursar.app.cluster.reconcile",
)


def check_room(
    truth: Truth, released: Mapping[Key, float], is_known: Callable[[str, float], bool]
) -> None:
    """A pod that was released has room in each quota that the controller knew at that time."""
    pods = {key_of(pod): pod for pod in truth.pods if not is_waiting(pod)}
    for key, at_s in released.items():
        if key not in pods or not is_known("", at_s) or not truth.is_gated(key.namespace):
            continue
        for quota in truth.quotas_of(pods[key]):
            if not is_known(name_of(quota), at_s) or not is_readable(quota):
                continue
            used, hard = truth.used(quota), hard_of(quota)
            for name, amount in cost_of(pods[key]).items():
                if name in used and not amount.is_zero:
                    where = f"{name_of(quota)} {name}: {used[name]}"
                    assert used[name] <= Quantity.parse(hard[name]), f"{key} is released, {where}"


# ------------------------------------------------------------------ calm


def check_calm(truth: Truth, term: Any, met: Counter[str]) -> None:
    """All faults have stopped: statuses are right, and no pod waits without a reason."""
    books = term.loop.books
    assert books.pending_release_count == 0
    assert len(books.growth) == 0, "a promise never ends"
    assert len(term.loop.departed) == 0, "a deleted quota is asked for for ever"
    assert len(term.loop._releases) == 0
    for quota in truth.quotas():
        check_status(truth, quota, met)
    for copy in truth.copies:
        check_copy(truth, copy)
    for pod in filter(is_waiting, truth.pods):
        check_waiting(truth, pod, met)


def is_readable(quota: Raw) -> bool:
    selector = spec_of(quota).get("scopeSelector")
    return selector is None


def is_contradictory(quota: Raw) -> bool:
    return {"Terminating", "NotTerminating"} <= set(spec_of(quota).get("scopes", ()))


def is_enforced(truth: Truth, quota: Raw) -> bool:
    """Whether all limits of a quota are in force: here nothing enforces what no gate can."""
    is_known = hard_of(quota).keys() <= POD_NAMES
    gated = any(truth.is_gated(name) for name in truth.reach(quota))
    is_held = gated or not truth.reach(quota)
    return is_known and is_held and is_readable(quota) and not is_contradictory(quota)


def check_status(truth: Truth, quota: Raw, met: Counter[str]) -> None:
    where, status = name_of(quota), quota.get("status", {})
    ready, is_own = ready_of(quota), quota["kind"] == APPLICATION_QUOTAS.kind
    wanted = "True" if is_enforced(truth, quota) else "False"
    assert ready.get("status") == wanted, f"{where} is {ready}, not {wanted}"
    met[f"ready {wanted}"] += 1
    if not is_readable(quota):
        return
    used = (status if is_own else status["total"]).get("used", {})
    shown = {name: Quantity.parse(used[name]) for name in used if name in POD_NAMES}
    counted = {name: amount for name, amount in truth.used(quota).items() if name in shown}
    assert shown == counted, f"the status of {where} says {shown}, not {counted}"
    assert {name for name in hard_of(quota) if name in POD_NAMES} == shown.keys(), where


def check_copy(truth: Truth, copy: Raw) -> None:
    namespace, name = copy["metadata"]["namespace"], copy["metadata"]["name"]
    [owner] = [each for each in truth.wide if each["metadata"]["name"] == name]
    if not is_readable(owner):
        return  # It may cover what it covered when it could be read.
    assert namespace in truth.reach(owner), f"{namespace} has a copy of {name}"
    if ready_of(copy).get("status") == "True":
        assert truth.is_gated(namespace), f"the copy of {name} in {namespace} is Ready"


def check_waiting(truth: Truth, pod: Raw, met: Counter[str]) -> None:
    namespace = pod["metadata"]["namespace"]
    if namespace not in truth.namespaces:
        return
    if not truth.is_targeted(namespace):
        assert truth.is_selected(namespace), f"nothing holds {pod['metadata']}"
        met["waits in dispute"] += 1
        return
    quotas = truth.quotas_of(pod) if all(is_readable(each) for each in truth.quotas()) else None
    if quotas is None:
        return
    met["waits for room"] += 1
    assert any(truth.is_short(quota, pod) for quota in quotas), f"stranded: {pod['metadata']}"


# ------------------------------------------------------------------ memory


def check_empty(before: Counter[str], after: Counter[str]) -> None:
    """Nothing is left of objects that are gone."""
    left = {
        place: (before[place], size)
        for place, size in after.items()
        if size > before[place] and not any(kept in place for kept in KEPT)
    }
    assert not left, left


def entries_of(root: object) -> Counter[str]:
    """How many entries the containers in an object have, by the path of attributes to them."""
    sizes = Counter[str]()
    seen = set[int]()
    stack: list[tuple[str, object]] = [("term", root)]
    while stack:
        path, thing = stack.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, dict | list | set):
            sizes[path] += len(thing)
            values = thing.values() if isinstance(thing, dict) else thing
            stack.extend((path + "[]", each) for each in values)
        elif type(thing).__module__.startswith(WALKED):
            stack.extend((f"{path}.{name}", value) for name, value in parts_of(thing))
    return sizes
