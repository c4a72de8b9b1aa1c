"""The waiting queue: groups, where they are parked, and who holds which quota."""

import pytest

from bursar.core.model.quantity import Quantity
from bursar.core.quota.account import NO_CHARGE, Account, Bill, Item
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.waiting import WaitingGroup, WaitingQueue
from support.builders.quota_books import a_key, a_profile, a_row, changed

KEY = a_key("a/q")


@pytest.fixture
def account():
    return Account(KEY, "pods", Quantity.parse("10"))


@pytest.fixture
def queue():
    return WaitingQueue()


def a_bill(account, wanted=1, **facts):
    return Bill(a_profile("a", **facts), NO_CHARGE, [Item(account, wanted * 10**9, 1)])


def join(queue, name, bill, created_s=0, *, ignores_priority=False):
    priority = bill.profile.priority
    row = a_row(f"a/{name}", created_s=created_s, priority=priority)
    queue.join(row, bill, ignores_priority=ignores_priority)
    return queue.group_of(PodKey("a", name))


def be_calm(queue):
    queue.untried.clear()


# ------------------------------------------------------------------ groups


def test_the_oldest_of_a_group_goes_first_then_by_name(account):
    group = WaitingGroup(a_bill(account), ignores_priority=False)
    for name, created_s in (("c", 2), ("b", 1), ("a", 2)):
        group.put(a_row(f"a/{name}", created_s=created_s))

    assert group.head().name == "b"
    assert group.rank() == (0, 1, "a", "b")
    group.take("b")
    assert group.head().name == "a"
    assert group.take("b") is None


def test_priority_goes_before_age_unless_it_is_ignored(account):
    bill = a_bill(account, priority=7)
    for ignores, first in ((False, -7), (True, 0)):
        group = WaitingGroup(bill, ignores_priority=ignores)
        group.put(a_row("a/web", created_s=3, priority=7))

        assert group.rank() == (first, 3, "a", "web")


def test_a_member_that_comes_back_younger_loses_its_place(account):
    group = WaitingGroup(a_bill(account), ignores_priority=False)
    group.put(a_row("a/web", created_s=1))
    group.put(a_row("a/db", created_s=2))

    group.put(a_row("a/web", created_s=3))

    assert group.head().name == "db"
    assert list(group.unreported) == ["web", "db"]


def test_news_of_a_member_takes_no_further_place(account):
    group = WaitingGroup(a_bill(account), ignores_priority=False)
    row = a_row("a/web")
    for _ in range(100):
        group.put(row)
        row = changed(row)

    assert len(group._arrivals) == 1


# ------------------------------------------------------------------ coming and going


def test_pods_of_one_bill_wait_as_one_group(queue, account):
    bill = a_bill(account)

    assert join(queue, "web", bill) is join(queue, "db", bill)
    assert len(queue) == 2
    assert list(queue.groups()) == queue.groups_in("a")
    assert queue.groups_in("b") == []


def test_a_pod_with_another_bill_joins_another_group(queue, account):
    first = join(queue, "web", a_bill(account))
    join(queue, "db", first.bill)
    second = join(queue, "web", a_bill(account, 2))

    assert first is not second
    assert list(first.members) == ["db"]
    assert len(queue) == 2


def test_a_group_is_tried_when_somebody_joins_or_its_first_changes(queue, account):
    bill = a_bill(account)
    group = join(queue, "web", bill, 5)
    assert list(queue.untried) == [group]
    be_calm(queue)

    join(queue, "web", bill, 5)
    assert not queue.untried
    join(queue, "web", bill, 6)
    assert list(queue.untried) == [group]
    be_calm(queue)
    join(queue, "db", bill, 9)
    assert list(queue.untried) == [group]


def test_a_group_is_tried_when_its_first_leaves(queue, account):
    bill = a_bill(account)
    group = join(queue, "first", bill, 1)
    join(queue, "second", bill, 2)
    join(queue, "third", bill, 3)
    be_calm(queue)

    queue.leave(PodKey("a", "second"))
    assert not queue.untried
    assert queue.leave(PodKey("a", "second")) is None
    assert queue.leave(PodKey("a", "first")).name == "first"

    assert list(queue.untried) == [group]


def test_nothing_is_left_of_a_group_without_members(queue, account):
    group = join(queue, "web", a_bill(account))
    queue.park(group, [(account, 1)])
    queue.hold(group, [KEY])

    queue.leave(PodKey("a", "web"))

    assert not any((len(queue), queue.untried, queue._groups, queue._parked, queue._parked_at))
    assert not any((queue._holds, queue._held_by, queue._first, queue._behind, queue._behind_at))


# ------------------------------------------------------------------ parking


def test_those_are_woken_for_whom_the_room_is_enough(queue, account):
    small, large = join(queue, "s", a_bill(account, 2)), join(queue, "l", a_bill(account, 4))
    queue.park(small, [(account, 2 * 10**9)])
    queue.park(large, [(account, 4 * 10**9)])
    be_calm(queue)
    account.charged = 8 * 10**9

    queue.wake(account)
    assert list(queue.untried) == [small]
    be_calm(queue)
    queue.unpark(small)
    queue.wake(account)
    assert not queue.untried
    queue.unpark(large)
    queue.wake(account)
    assert not queue.untried


# ------------------------------------------------------------------ holding


def test_a_holder_stands_before_those_who_rank_behind_it(queue, account):
    holder, behind = join(queue, "h", a_bill(account), 5), join(queue, "b", a_bill(account), 6)
    assert queue.holder_before(behind, behind.rank()) is None

    queue.hold(holder, [KEY])

    assert queue.holder_before(behind, behind.rank()) == (KEY, holder)
    assert queue.holder_before(holder, holder.rank()) is None
    elsewhere = Account(a_key("a/other"), "pods", Quantity.parse("1"))
    assert queue.holder_before(join(queue, "x", a_bill(elsewhere), 9), (0, 9, "a", "x")) is None
    assert queue.holder_before(join(queue, "y", a_bill(account), 4), (0, 4, "a", "y")) is None


def test_the_first_of_several_holders_counts(queue, account):
    late, early = join(queue, "l", a_bill(account), 5), join(queue, "e", a_bill(account), 4)
    queue.hold(late, [KEY])
    assert queue.holder_before(late, (0, 9, "", "")) is None
    queue.hold(early, [KEY])

    assert queue.holder_before(late, late.rank()) == (KEY, early)
    queue.hold(early, ())
    assert queue.holder_before(early, (0, 9, "", "")) == (KEY, late)


def test_those_behind_are_woken_when_the_holder_lets_go(queue, account):
    holder, behind = join(queue, "h", a_bill(account), 5), join(queue, "b", a_bill(account), 6)
    queue.hold(holder, [KEY])
    queue.park_behind(behind, KEY)
    be_calm(queue)

    queue.hold(holder, [KEY])
    assert not queue.untried
    queue.hold(holder, ())

    assert list(queue.untried) == [behind]


def test_a_hold_ends_with_the_pod_it_was_for(queue, account):
    bill = a_bill(account)
    holder, behind = join(queue, "h", bill, 5), join(queue, "b", a_bill(account), 6)
    join(queue, "h2", bill, 9)
    for ending in (
        lambda: queue.leave(PodKey("a", "h")),
        lambda: join(queue, "h2", bill, 10),
        lambda: join(queue, "h3", bill, 8),
    ):
        queue.hold(holder, [KEY])
        queue.park_behind(behind, KEY)
        be_calm(queue)

        ending()

        assert set(queue.untried) == {holder, behind}
        assert queue.holder_before(behind, (0, 99, "", "")) is None


def test_whoever_is_parked_elsewhere_is_not_behind_any_more(queue, account):
    behind, other = join(queue, "b", a_bill(account), 6), join(queue, "o", a_bill(account), 7)
    holder = join(queue, "h", a_bill(account), 5)
    queue.hold(holder, [KEY])
    for group in (behind, other):
        queue.park_behind(group, KEY)
    queue.unpark(behind)
    be_calm(queue)

    queue.hold(holder, ())

    assert list(queue.untried) == [other]
