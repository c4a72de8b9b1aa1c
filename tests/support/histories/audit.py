"""The auditor's look into the books of one leader, after every step of a history.

The auditor knows what the leader has heard and what it has agreed to, and counts again from that.
So it finds a wrong number in the step in which it arises, not only when it has done harm.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import TYPE_CHECKING, Any

from bursar.core.model.pod_row import PodProfile, PodRow
from bursar.core.quota.coverage import CoveredQuota
from bursar.core.quota.growth.promises import NAMES_LENGTH_MAX, POD_PROMISES_MAX
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.quota import GATE, Order, Quota, QuotaKey
from bursar.core.quota.releases import Wait
from bursar.core.quota.waiting_pods.timers import STALE_MAX
from support.builders.quota_books import GATED
from support.histories.naive_count import is_exempt, is_in_use, is_unreadable_for, weight_of

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
    check_exempt(leader)
    check_own_limits(leader)
    check_ranks(leader)
    if not leader.books._changes._shared:
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
            is_over = stamp in leader.exempt or stamp in leader.outdated
            is_held = is_over or f"release/{stamp.uid}" in ids
            assert is_held, f"{pod} is released, and nothing is reserved"
    return used


def check_exempt(leader: "Leader") -> None:
    """Nothing is about to be released without a quota where pods are gated."""
    namespaces, books = leader.view["namespaces"], leader.books
    for pod, pending in books._pending.items():
        if pending.is_exempt and not books.is_catching_up(pod.namespace):
            assert is_exempt(namespaces.get(pod.namespace)), f"{pod} is released without a quota"


def check_ranks(leader: "Leader") -> None:
    """A waiting pod ignores its priority exactly if a quota in order `fifo` limits it."""
    world = leader.world
    for group in leader.books.waiting.groups():
        if leader.books.is_catching_up(group.namespace):
            continue
        profile = group.bill.profile
        is_fifo = any(
            quota.order is Order.FIFO
            for quota in leader.view["quotas"].values()
            if group.namespace in leader.reach(quota) and world.needs.of(quota, profile)
            if not leader.books.coverage.own_limits.is_left_out(quota.key)
        )
        assert group.ignores_priority == is_fifo, f"{group.namespace} {list(group.members)}"


def check_release(leader: "Leader", row: PodRow) -> None:
    """A pod that is released just now has room in all its quotas, and doubt holds it."""
    namespaces = leader.view["namespaces"]
    assert row.profile.gates == GATED
    assert row.namespace in namespaces
    assert not leader.has_left_out(row.namespace), f"{row} is released, and a quota is left out"
    assert not leader.books._changes._shared, f"{row} is released, and a change is not entered"
    for quota in leader.view["quotas"].values():
        if row.namespace not in leader.reach(quota):
            continue
        assert not is_unreadable_for(quota, row), (
            f"{row} is released, and {quota.key} is unreadable"
        )
        covered = leader.books.coverage.quota(quota.key)
        for name in leader.world.needs.of(quota, row.profile):
            assert covered.accounts[name].free >= 0, f"{quota.key} {name} is overdrawn by {row}"


# ------------------------------------------------------------------ limits of a namespace


def check_own_limits(leader: "Leader") -> None:
    """Quotas are left out as long as they have no room, and no longer."""
    own_limits, limits_max = leader.books.coverage.own_limits, leader.world.limits_max
    entered = defaultdict[str, int](int)
    left_out = set[str]()
    for key, quota in leader.view["quotas"].items():
        held = leader.books.coverage.quota(key)
        assert held is not None, f"{key} is not entered"
        assert held.quota == own_limits.entered(quota), f"{key} is entered in another way"
        if own_limits.is_left_out(key):
            left_out.add(key.namespace)
            assert held.accounts == {}, f"{key} is left out, and has accounts"
            assert held.quota.problem, f"{key} is left out, and nobody is told"
        else:
            assert held.quota == quota, f"{key} is not entered as it is"
            entered[key.namespace] += weight_of(quota) if key.namespace else 0
    for namespace in left_out:
        first = leader.view["quotas"][own_limits.first_left_out(namespace)]
        has_room = entered[namespace] + weight_of(first) <= limits_max
        assert not has_room, f"{first.key} is left out, and has room"
    leader.world.met["left out audits"] += bool(left_out)
    assert all(each <= limits_max for each in entered.values()), dict(entered)


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
        if doubtful & names or is_in_motion(leader, quota.key):
            continue
        covered = leader.books.coverage.quota(quota.key)
        check_charges(leader, covered, [row for name in names for row in used.get(name, ())])
        check_promises(leader, covered, held, names, restored)


def is_in_motion(leader: "Leader", key: QuotaKey) -> bool:
    """Whether a quota is entered by parts only, or left out."""
    books = leader.books
    is_left_out = books.coverage.own_limits.is_left_out(key)
    return is_left_out or bool(key.namespace and books.is_catching_up(key.namespace))


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


def charged_of(accounts: Mapping[str, Any]) -> dict[str, int]:
    return {name: account.charged for name, account in accounts.items()}


def check_others(before: Numbers, after: Numbers, what: object) -> None:
    """The numbers that are about others before and after an act are the same."""
    same = before.keys() & after.keys()
    different = {key: (before[key], after[key]) for key in same if before[key] != after[key]}
    assert not different, f"{what} has changed {different}"


TEXT_LENGTH_MAX = 1_500
"""Of one reason why a pod waits: each waiting pod keeps it."""


def check_texts(waits: Iterable[Wait]) -> None:
    """What a tenant writes into gates and quotas is not repeated at length."""
    for wait in waits:
        for refusal in wait.refusals:
            assert len(refusal.detail) <= TEXT_LENGTH_MAX, refusal.detail[:200]


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
    for numbers in (books.waiting.turns._released, books.waiting.turns._held):
        assert all(table.keys() <= leader.view["namespaces"].keys() for table in numbers.values())
    check_record(leader)
    check_queue_sizes(leader)
    check_texts(books.blocked())
    for timers in (books._wall_timers, books._steady_timers):
        assert timers._due_s.keys() <= pods
        assert len(timers) <= 2 * len(timers._due_s) + STALE_MAX


def check_record(leader: "Leader") -> None:
    """The record of promises is not long because of quotas that a tenant writes for itself."""
    for recorded in leader.books.growth.recorded():
        names, namespace = recorded.amounts.keys(), recorded.pod.namespace
        is_catching_up = leader.books.is_catching_up(namespace)
        if is_catching_up or sum(map(len, names)) <= NAMES_LENGTH_MAX:
            continue
        leader.world.met["long records"] += 1
        bill = leader.books.ledger.bill_of(recorded.pod)
        charged = bill.charge.amounts if bill is not None else {}
        quotas = leader.view["quotas"].values()
        shared = {
            name
            for quota in quotas
            if quota.selector is not None and namespace in leader.reach(quota)
            for name in quota.hard
        }
        for name in names - shared:
            assert recorded.amounts[name] > charged.get(name, (0,))[0], f"{name} is recorded"


def check_queue_sizes(leader: "Leader") -> None:
    """Each pod with the quota gate counts towards the bound on waiting pods, until it is released.

    Also those that have ended, or that are being deleted and that a finalizer keeps.
    """
    books, gated = leader.books, Counter[str]()
    for pod, row in leader.view["pods"].items():
        gated[pod.namespace] += GATE in row.profile.gates and pod not in books._pending
    counted = Counter(books.waiting.sizes()) + Counter(books.blocked_sizes())
    assert counted == +gated, f"{counted} pods are counted as waiting, not {gated}"


def check_size(leader: "Leader", fresh: "Leader") -> None:
    """Books that have been through everything are not much larger than those of a new leader."""
    kept, needed = entries(leader.books), entries(fresh.books)
    leader.world.met["size audits"] += 1
    for place, size in kept.items():
        bound = 2 * needed.get(place, 0) + ENTRIES_LEFT
        assert size <= bound, f"{place} has {size} entries, in new books {needed.get(place, 0)}"


def check_empty(leader: "Leader") -> None:
    """When all objects are gone, the books hold nothing of them."""
    leader.world.met["empty audits"] += 1
    books = leader.books
    left = {place: size for place, size in entries(books).items() if size}
    for place in KEPT_WHEN_EMPTY:
        left.pop(place, None)
    assert all(size <= STALE_MAX and place.endswith("_heap") for place, size in left.items()), left
    assert not leader.queue._known
    assert all(each.is_troubled for each in leader.queue._namespaces.values())
    assert not any(books.blocked_counts.values())
    assert not any(books.waiting._counts.values())


KEPT_WHEN_EMPTY = ("books._blocked.counts", "books.waiting._counts", "books.waiting._lines")
"""Numbers by reason, and lines of namespaces without pods, of which there is a bounded number."""


ENTRIES_LEFT = 2 * STALE_MAX
"""What may be left over in one place: stale timers, idle lines, turns, rests."""
BOUNDED_CACHES = {"_recent", "_bills", "amounts"}
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
