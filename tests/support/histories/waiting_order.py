"""The order of waiting pods, judged naively: which pod goes before which, and which may pass."""

from typing import TYPE_CHECKING

from bursar.core.model.pod_row import PodRow
from bursar.core.quota.quota import Order, Quota, QuotaKey
from bursar.core.quota.releases import Release
from support.histories.naive_count import Amounts, could_never_fit, is_short, needs

if TYPE_CHECKING:
    from support.histories.simulated_cluster import World
    from support.histories.simulated_leader import Leader

Totals = dict[QuotaKey, Amounts]
"""What pods use of each quota."""


def rank(leader: "Leader", row: PodRow) -> tuple[int, int, str, str]:
    """The place of a pod among those of its namespace."""
    is_fifo = any(quota.order is Order.FIFO for quota in leader.world.quotas_of(row))
    priority = 0 if is_fifo else row.profile.priority or 0
    return (-priority, leader.age_s(row), row.namespace, row.name)


def may_be_passed(leader: "Leader", quota: Quota, row: PodRow) -> bool:
    is_patient = leader.waiting_since_s(row) + leader.patience_s > leader.world.now_s
    return quota.order is Order.BACKFILL and is_patient


def is_behind(
    leader: "Leader", row: PodRow, quotas: list[Quota], waiting: list[PodRow], totals: Totals
) -> bool:
    """Whether another pod keeps this one from having one of these quotas.

    It ranks before it in its namespace and may not be passed, or another namespace has its turn to
    hold a cluster-wide quota.
    """
    if any(holding_namespace(leader, each) not in ("", row.namespace) for each in quotas):
        leader.world.met["waits behind another namespace"] += 1
        return True
    return is_behind_own(leader, row, quotas, waiting, totals)


def is_behind_own(
    leader: "Leader", row: PodRow, quotas: list[Quota], waiting: list[PodRow], totals: Totals
) -> bool:
    """Whether a pod of its own namespace keeps this one from having one of these quotas."""
    for other in waiting:
        if other.namespace != row.namespace or rank(leader, other) >= rank(leader, row):
            continue
        if any(quota in quotas for quota in held_by(leader, other, totals)):
            return True
    return False


def holding_namespace(leader: "Leader", quota: Quota) -> str:
    turn = leader.books.waiting.turns.holding.get(quota.key)
    return "" if turn is None else turn.namespace


def held_by(leader: "Leader", row: PodRow, totals: Totals) -> list[Quota]:
    """The quotas that are short for a pod and in which it may not be passed."""
    mine = leader.world.quotas_of(row)
    if any(could_never_fit(quota, row) for quota in mine):
        return []
    return [
        quota
        for quota in mine
        if is_short(quota, row, totals[quota.key]) and not may_be_passed(leader, quota, row)
    ]


def check_order(leader: "Leader", releases: list[Release], totals: Totals) -> None:
    """No pod passes one that ranks before it and waits for nothing but a quota in strict order."""
    world: World = leader.world
    gone = {release.row.stamp.uid for release in releases}
    left = [
        row
        for row in world.waiting()
        if row.stamp.uid not in gone | leader.refused and world.can_be_counted(leader, row)
    ]
    for release in releases:
        mine = [] if release.is_exempt else world.quotas_of(release.row)
        for row in left:
            if release.row.namespace == row.namespace:
                check_pair(leader, release.row, mine, row, left, totals)
        for quota in mine:
            for name, amount in needs(quota, release.row).items():
                totals[quota.key][name] += amount


def check_pair(
    leader: "Leader",
    released: PodRow,
    mine: list[Quota],
    row: PodRow,
    left: list[PodRow],
    totals: Totals,
) -> None:
    """A pod that was released has not passed one that was left."""
    theirs = leader.world.quotas_of(row)
    short = [quota for quota in theirs if is_short(quota, row, totals[quota.key])]
    if len(short) != 1 or could_never_fit(short[0], row) or short[0] not in mine:
        return
    if may_be_passed(leader, short[0], row):
        return
    leader.world.met["order checks"] += 1
    if rank(leader, released) > rank(leader, row):
        others = [quota for quota in theirs if quota is not short[0]]
        assert is_behind(leader, row, others, left, totals), f"{released} passed {row}"
