"""The auditor's look into the books of one leader, after every step of a history.

The auditor knows what the leader has heard and what it has agreed to, and counts again from that.
So it finds a wrong number in the step in which it arises, not only when it has done harm.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sized
from typing import TYPE_CHECKING, Any

from bursar.core.model.pod_row import PodProfile, PodRow
from bursar.core.quota.coverage import CoveredQuota
from bursar.core.quota.growth.promises import POD_PROMISES_MAX
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.quota import Quota
from bursar.core.quota.waiting_pods.timers import STALE_MAX
from support.builders.quota_books import GATED
from support.histories.naive_count import is_in_use, is_unreadable_for

if TYPE_CHECKING:
    from support.histories.simulated_leader import Leader

Numbers = dict[Any, tuple[int, ...]]
"""Limit, charge and promises of each account; the charge of each share."""


def check_books(leader: "Leader") -> None:
    """Check everything that must hold at any moment, whatever is under way."""
    if leader.is_audited:
        return  # Nothing has reached its books since.
    leader.is_audited = True
    leader.world.met["audits"] += 1
    used = check_pods(leader)
    check_amounts(leader, used)
    check_bounds(leader)


# ------------------------------------------------------------------ releases


def check_pods(leader: "Leader") -> dict[str, list[PodRow]]:
    """Nothing is released without its charge. Returns the pods in use, by namespace.

    A pod that may have been lifted, for all that the leader has heard, is reserved for; a pod
    that runs is charged; and a pod behind a gate is not.
    """
    ledger, now_s = leader.books.ledger, leader.world.now_s
    used = defaultdict[str, list[PodRow]](list)
    for pod, row in leader.view["pods"].items():
        is_used, is_charged = is_in_use(row, now_s), ledger.bill_of(pod) is not None
        assert is_charged == is_used, f"{pod} is charged: {is_charged}"
        if is_used:
            used[pod.namespace].append(row)
        elif row.profile.gates and (stamp := row.stamp) in leader.aloft:
            ids = [each.id for each in ledger.reservations_of(pod)]
            is_held = stamp in leader.exempt or f"release/{stamp.uid}" in ids
            assert is_held, f"{pod} is released, and nothing is reserved"
    return used


def check_release(leader: "Leader", row: PodRow) -> None:
    """A pod that is released just now has room in all its quotas, and doubt holds it."""
    namespaces = leader.view["namespaces"]
    assert row.profile.gates == GATED
    assert row.namespace in namespaces
    for quota in leader.view["quotas"].values():
        if row.namespace not in leader.reach(quota):
            continue
        assert not is_unreadable_for(quota, row), (
            f"{row} is released, and {quota.key} is unreadable"
        )
        covered = leader.books.coverage.quota(quota.key)
        for name in leader.world.needs.of(quota, row.profile):
            assert covered.accounts[name].free >= 0, f"{quota.key} {name} is overdrawn by {row}"


# ------------------------------------------------------------------ amounts


def check_amounts(leader: "Leader", used: dict[str, list[PodRow]]) -> None:
    """Every account has what a naive count of all that the leader knows has."""
    unready = leader.world.unready
    doubtful = {
        # A pod that cannot be counted may be charged what it cost before.
        name
        for name, rows in used.items()
        if unready and any(row.stamp.uid in unready for row in rows)
    }
    held, restored = promised_profiles(leader)
    for quota in leader.view["quotas"].values():
        names = leader.reach(quota)
        if doubtful & names:
            continue
        covered = leader.books.coverage.quota(quota.key)
        check_charges(leader, covered, [row for name in names for row in used.get(name, ())])
        check_promises(leader, covered, held, names, restored)


def promised_profiles(leader: "Leader") -> tuple[dict[PodKey, list[PodProfile]], set[PodKey]]:
    """What the pods will be for which something is held, and those that an earlier leader knew."""
    held, restored = defaultdict[PodKey, list[PodProfile]](list), set[PodKey]()
    for pod, pending in leader.books._pending.items():
        if not pending.is_exempt:
            held[pod].append(pending.row.profile)
    for resize in leader.promises:
        pod = PodKey(resize.after.namespace, resize.after.name)
        if resize.is_restored:
            restored.add(pod)
        else:
            held[pod].append(resize.after.profile)
    restored |= {each.pod for each in leader.books.growth if each.grown is None}
    return held, restored


def check_charges(leader: "Leader", covered: CoveredQuota, rows: list[PodRow]) -> None:
    quota, needs = covered.quota, leader.world.needs
    total = dict.fromkeys(covered.accounts, 0)
    for row in rows:
        for name, nanos in needs.of(quota, row.profile).items():
            total[name] += nanos
    charged = {name: account.charged for name, account in covered.accounts.items()}
    assert charged == total, f"{quota.key} is charged {charged}, not {total}"


def check_promises(
    leader: "Leader",
    covered: CoveredQuota,
    held: Mapping[PodKey, list[PodProfile]],
    names: set[str],
    restored: set[PodKey],
) -> None:
    """What is promised is what was agreed to, of each pod the greatest; nothing is lost.

    Of promises that an earlier leader made, only the amounts are known that were limited then.
    """
    quota, world = covered.quota, leader.world
    total = dict.fromkeys(covered.accounts, 0)
    for pod, profiles in held.items():
        if pod.namespace in names:
            for name, nanos in growth_of(leader, quota, pod, profiles).items():
                total[name] += nanos
    promised = {name: account.promised for name, account in covered.accounts.items()}
    if any(pod.namespace in names for pod in restored):
        for name, nanos in total.items():
            assert promised[name] >= nanos, f"{quota.key} {name}: a promise was lost"
        check_restored(leader, covered, names)
        return
    world.met["promise audits"] += any(total.values())
    assert promised == total, f"{quota.key} has promised {promised}, not {total}"


def growth_of(
    leader: "Leader", quota: Quota, pod: PodKey, profiles: list[PodProfile]
) -> dict[str, int]:
    """What a pod would use beyond what it is charged, if it became the largest of these."""
    needs, row = leader.world.needs, leader.view["pods"].get(pod)
    is_used = row is not None and is_in_use(row, leader.world.now_s)
    charged = needs.of(quota, row.profile) if is_used else {}
    most: dict[str, int] = {}
    for profile in profiles:
        for name, nanos in needs.of(quota, profile).items():
            most[name] = max(most.get(name, 0), nanos - charged.get(name, 0))
    return most


def check_restored(leader: "Leader", covered: CoveredQuota, names: set[str]) -> None:
    """A promise of an earlier leader stands under each quota that has not changed since."""
    quota, namespaces = covered.quota, leader.view["namespaces"]
    for resize in leader.promises:
        pod = PodKey(resize.after.namespace, resize.after.name)
        row, known = leader.view["pods"].get(pod), resize.known
        if not resize.is_restored or pod.namespace not in names or row is None:
            continue
        is_as_before = (
            known.quotas.get(quota.key) is quota
            and known.namespaces.get(pod.namespace) is namespaces[pod.namespace]
            and row.demand.qos is resize.after.demand.qos
        )
        if is_as_before:
            leader.world.met["restored promise audits"] += 1
            wanted = growth_of(leader, quota, pod, [resize.after.profile])
            for name, nanos in wanted.items():
                promised = covered.accounts[name].promised
                assert promised >= nanos, f"{quota.key} {name}: a promise to {pod} was lost"


# ------------------------------------------------------------------ tenants


def numbers_of_others(leader: "Leader", hostile: frozenset[str]) -> Numbers:
    """Everything that the books say about quotas and shares of other namespaces than these."""
    numbers: Numbers = {}
    for covered in leader.books.coverage.quotas():
        key = covered.quota.key
        if not covered.namespaces & hostile and key.namespace not in hostile:
            for name, each in covered.accounts.items():
                numbers[key, name] = (each.hard, each.charged, each.promised)
        for namespace, share in covered.shares.items():
            if namespace not in hostile:
                for name, each in share.items():
                    if each.charged:
                        numbers[key, namespace, name] = (each.charged,)
    return numbers


def check_others(before: Numbers, after: Numbers, what: object) -> None:
    """The numbers that are about others before and after an act are the same."""
    same = before.keys() & after.keys()
    different = {key: (before[key], after[key]) for key in same if before[key] != after[key]}
    assert not different, f"{what} has changed {different}"


# ------------------------------------------------------------------ bounds


def check_bounds(leader: "Leader") -> None:
    """Nothing is kept for pods that are gone, and no pod has more than its part."""
    books, pods = leader.books, leader.view["pods"].keys()
    growth, pending = books.growth, books._pending
    assert all(len(each) <= POD_PROMISES_MAX for each in growth.by_pod.values())
    reserved = sum(not each.is_exempt for each in pending.values()) + len(growth)
    assert books.ledger.reservation_count == reserved
    for kept in (growth.by_pod, pending, books._backoffs, books._expires_s):
        assert kept.keys() <= pods
    for table in (books.ages._ages, books.ages._behind_others):
        assert {PodKey(place, name) for place, names in table.items() for name in names} <= pods
        assert all(table.values()), "no empty table is kept"
    for timers in (books._wall_timers, books._steady_timers):
        assert timers._due_s.keys() <= pods
        assert len(timers) <= 2 * len(timers._due_s) + STALE_MAX


def check_size(leader: "Leader", fresh: "Leader") -> None:
    """Books that have been through everything are not much larger than those of a new leader."""
    kept, needed = entries(leader.books), entries(fresh.books)
    leader.world.met["size audits"] += 1
    for place, size in kept.items():
        bound = 2 * needed.get(place, 0) + ENTRIES_LEFT
        assert size <= bound, f"{place} has {size} entries, in new books {needed.get(place, 0)}"


ENTRIES_LEFT = 2 * STALE_MAX
"""What may be left over in one place: stale timers, idle lines, turns, rests."""
BOUNDED_CACHES = {"_recent", "_bills"}
"""Bounded by number and bytes, or by the life of pods; `test_quota_memory` is about them."""


def entries(books: object) -> dict[str, int]:
    """How many entries the containers in an object have, by the path of attributes to them."""
    sizes: dict[str, int] = defaultdict(int)
    seen = set[int]()
    stack: list[tuple[str, object]] = [("books", books)]
    while stack:
        path, thing = stack.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, dict | list | set) and isinstance(thing, Sized):
            sizes[path] += len(thing)
            values = thing.values() if isinstance(thing, dict) else thing
            stack.extend((path + "[]", each) for each in values)
        elif type(thing).__module__.startswith("bursar.core.quota"):
            stack.extend((f"{path}.{name}", value) for name, value in parts_of(thing))
    return sizes


def parts_of(thing: object) -> Iterator[tuple[str, object]]:
    names = [*getattr(thing, "__dict__", ()), *getattr(type(thing), "__slots__", ())]
    for name in names:
        if name not in BOUNDED_CACHES and hasattr(thing, name):
            yield name, getattr(thing, name)
