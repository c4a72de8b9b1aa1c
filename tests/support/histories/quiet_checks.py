"""What must hold when nothing is under way: right books, and no pod that waits without a reason."""

from typing import TYPE_CHECKING

from bursar.core.model.pod_row import PodRow
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.quota import Quota
from bursar.core.quota.refusal import Reason
from bursar.core.quota.waiting_pods.turns import HOLD_SECONDS
from support.histories.audit import charged_of
from support.histories.naive_count import Amounts, is_exempt, is_short, reach, used
from support.histories.waiting_order import Totals, held_by, is_behind

if TYPE_CHECKING:
    from support.histories.simulated_leader import Leader


def check_quiet(leader: "Leader") -> None:
    """Nothing is under way: the books are right, and each waiting pod has a reason."""
    world = leader.world
    world.met["quiet checks"] += 1
    assert (leader.books.pending_release_count, leader.books.ledger.reservation_count) == (0, 0)
    totals = world.all_used()
    for quota in world.quotas.values():
        check_accounts(leader, quota, totals[quota.key])
    for row in world.waiting():
        check_blocked(leader, row)
    waiting = [row for row in world.waiting() if world.can_be_counted(leader, row)]
    for row in waiting:
        assert leader.books.waiting.group_of(PodKey(row.namespace, row.name)), f"lost: {row}"
        assert row.stamp.uid in leader.told, f"not told: {row}"
        check_wait(leader, row, waiting, totals)
    for quota in world.quotas.values():
        check_turn(leader, quota, waiting, totals)


def check_blocked(leader: "Leader", row: PodRow) -> None:
    """A pod that waits for something else than room is known to wait for that."""
    world, namespace = leader.world, leader.world.namespaces.get(row.namespace)
    assert not is_exempt(namespace), f"nothing holds {row}"
    if namespace is None:
        expected = Reason.NAMESPACE_UNKNOWN
    elif not namespace.is_targeted:
        world.met["waits in dispute"] += 1
        expected = Reason.GATING_MISMATCH
    elif world.is_in_doubt(leader, row):
        world.met["waits in doubt"] += 1
        world.met["waits for limits left out"] += leader.has_left_out(row.namespace)
        expected = Reason.QUOTA_UNREADABLE
    else:
        return
    blocked = leader.books._blocked.find(PodKey(row.namespace, row.name))
    assert blocked is not None, f"lost: {row}"
    assert blocked.refusal.reason is expected, blocked


def check_enough(leader: "Leader") -> None:
    """Pods that were resized while they could not be counted are charged enough."""
    leader.world.met["uncounted resizes"] += 1
    for key, total in leader.world.all_used().items():
        covered = leader.books.coverage.quota(key)
        assert covered is not None, key
        if leader.books.coverage.own_limits.is_left_out(key):
            continue
        charged = charged_of(covered.accounts)
        lacking = {name for name, amount in total.items() if charged[name] < amount.nanos}
        assert not lacking, (key, lacking)


def check_accounts(leader: "Leader", quota: Quota, total: Amounts) -> None:
    world, covered = leader.world, leader.books.coverage.quota(quota.key)
    assert covered is not None, quota.key
    names = reach(quota, world.namespaces)
    expected = {name: amount.nanos for name, amount in total.items()}
    if leader.books.coverage.own_limits.is_left_out(quota.key):
        names, expected = set(), {}
    accounts = covered.accounts
    assert charged_of(accounts) == expected, quota.key
    assert {name: accounts[name].hard for name in expected} == {
        name: quota.hard[name].nanos for name in expected
    }
    held = [*accounts.values(), *(a for s in covered.shares.values() for a in s.values())]
    assert not any(account.promised for account in held), quota.key
    assert covered.namespaces == names
    assert covered.shares.keys() <= names
    reported, shares = leader.reported[quota.key]
    assert reported == expected, f"the report on {quota.key} is stale"
    assert shares.keys() == names, f"the report on {quota.key} is stale"
    for name in names if quota.selector is not None else ():
        part = {n: a.nanos for n, a in used(quota, world.within({name}), world.now_s).items()}
        assert shares[name].items() <= part.items(), quota.key
        assert sum(shares[name].values()) == sum(part.values()), quota.key


def check_wait(leader: "Leader", row: PodRow, waiting: list[PodRow], totals: Totals) -> None:
    """A pod that fits ranks behind one that does not, and that may not be passed."""
    world = leader.world
    mine = world.quotas_of(row)
    if any(is_short(quota, row, totals[quota.key]) for quota in mine):
        world.met["waits for room"] += 1
        return
    assert is_behind(leader, row, mine, waiting, totals), f"stranded: {row}"
    world.met["waits behind another"] += 1


def check_turn(leader: "Leader", quota: Quota, waiting: list[PodRow], totals: Totals) -> None:
    """A namespace holds a quota only with a pod that may not be passed, and not for long."""
    turn = leader.books.waiting.turns.holding.get(quota.key)
    if turn is None:
        return
    leader.world.met["turns to hold"] += 1
    assert quota.selector is not None, "a quota of one namespace is held up against nobody"
    held_s = leader.world.now_s - turn.since_s
    assert held_s < HOLD_SECONDS, f"{quota.key} is held for too long"
    holders = [
        row
        for row in waiting
        if row.namespace == turn.namespace and quota in held_by(leader, row, totals)
    ]
    assert holders, f"{quota.key} is held by no pod"
