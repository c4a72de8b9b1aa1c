"""The waiting queue: groups, where they are parked, and who holds which quota."""

import sys

import pytest

from bursar.core.model.quantity import Quantity
from bursar.core.quota.account import NO_CHARGE, Account, Bill
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.refusal import Reason
from bursar.core.quota.waiting_pods.groups import Line, WaitingGroup
from bursar.core.quota.waiting_pods.waiting_queue import IDLE_LINES_MAX, WaitingQueue
from support.builders.quota_books import a_key, a_profile, a_row, changed

KEY = a_key("a/q")
LINE = Line("a")


@pytest.fixture
def account():
    return Account(KEY, "pods", Quantity.parse("10"))


@pytest.fixture
def queue():
    return WaitingQueue()


def a_bill(account, wanted=1, **facts):
    return Bill(a_profile("a", **facts), NO_CHARGE, [(account, wanted * 10**9, 1)])


def join(queue, name, bill, created_s=0, *, ignores_priority=False):
    priority = bill.profile.priority
    row = a_row(f"a/{name}", created_s=created_s, priority=priority)
    queue.join(PodKey("a", name), row, bill, created_s, ignores_priority=ignores_priority)
    return queue.group_of(PodKey("a", name))


def popped(queue):
    """All groups that are to be tried, in order. The others are parked, as far as they are."""
    found = []
    while (group := queue.pop()) is not None:
        found.append(group)
    return found


def park(queue, group, account, wanted):
    queue.park(group, [(account, wanted * 10**9)])


# ------------------------------------------------------------------ groups


def test_the_oldest_of_a_group_goes_first_then_by_name(account):
    group = WaitingGroup(a_bill(account), LINE, ignores_priority=False)
    for name, created_s in (("c", 2), ("b", 1), ("a", 2)):
        group.put(a_row(f"a/{name}", created_s=created_s), created_s)

    assert group.head().name == "b"
    assert group.rank() == (0, 1, "a", "b")
    group.take("b")
    assert group.head().name == "a"


def test_priority_goes_before_age_unless_it_is_ignored(account):
    bill = a_bill(account, priority=7)
    for ignores, first in ((False, -7), (True, 0)):
        group = WaitingGroup(bill, LINE, ignores_priority=ignores)
        group.put(a_row("a/web", created_s=3, priority=7), 3)

        assert group.rank() == (first, 3, "a", "web")


def test_a_member_that_comes_back_younger_loses_its_place(account):
    group = WaitingGroup(a_bill(account), LINE, ignores_priority=False)
    group.put(a_row("a/web", created_s=1), 1)
    group.put(a_row("a/db", created_s=2), 2)

    group.put(a_row("a/web", created_s=3), 3)

    assert group.head().name == "db"
    assert list(group.unreported) == ["web", "db"]


def test_news_of_a_member_takes_no_further_place(account):
    group = WaitingGroup(a_bill(account), LINE, ignores_priority=False)
    row = a_row("a/web")
    for _ in range(100):
        group.put(row, 0)
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
    assert popped(queue) == [group]

    join(queue, "web", bill, 5)
    assert popped(queue) == []
    join(queue, "web", bill, 6)
    assert popped(queue) == [group]
    join(queue, "db", bill, 9)
    assert popped(queue) == [group]


def test_a_group_is_tried_when_its_first_leaves(queue, account):
    bill = a_bill(account)
    group = join(queue, "first", bill, 1)
    join(queue, "second", bill, 2)
    join(queue, "third", bill, 3)
    popped(queue)

    queue.leave(PodKey("a", "second"))
    assert popped(queue) == []
    assert queue.leave(PodKey("a", "second")) is None
    assert queue.leave(PodKey("a", "first")).name == "first"

    assert popped(queue) == [group]


def test_groups_are_tried_in_order_of_rank_whenever_they_came(queue, account):
    groups = [join(queue, f"p{age}", a_bill(account), age) for age in (3, 1, 2)]
    first = queue.pop()
    late = join(queue, "p0", a_bill(account), 0)

    assert [first, *popped(queue)] == [groups[1], late, groups[2], groups[0]]


def test_a_group_that_leaves_before_it_is_tried_keeps_nobody_from_being_tried(queue, account):
    for age in (1, 2, 3):
        group = join(queue, f"p{age}", a_bill(account), age)
    queue.leave(PodKey("a", "p1"))
    queue.leave(PodKey("a", "p2"))

    assert popped(queue) == [group]
    queue.leave(PodKey("a", "p3"))
    assert popped(queue) == []


def test_nothing_is_left_of_a_group_without_members(queue, account):
    group = join(queue, "web", a_bill(account))
    popped(queue)
    queue.set_reason(group, Reason.QUOTA_EXCEEDED)
    park(queue, group, account, 1)
    queue.hold(group, [KEY])

    queue.leave(PodKey("a", "web"))

    assert not any((len(queue), popped(queue), queue.sizes(), list(queue.groups())))
    assert not any((queue.is_anything_parked, queue._lines_at))
    assert not any((queue._places_of, queue._holds, *queue._counts.values()))


def test_few_lines_are_kept_for_namespaces_in_which_nobody_waits(queue):
    for number in range(IDLE_LINES_MAX + 50):
        namespace, bill = f"ns{number}", Bill(a_profile(f"ns{number}"), NO_CHARGE)
        pod = PodKey(namespace, "web")
        queue.join(pod, a_row(f"{namespace}/web"), bill, 0, ignores_priority=False)
        queue.leave(pod)

    assert len(queue._lines) <= IDLE_LINES_MAX + 1
    assert popped(queue) == []


def test_a_line_gives_its_tables_back_when_nobody_waits_in_it(queue, account):
    bill = a_bill(account)
    for number in range(100):
        join(queue, f"p{number}", bill)
    line = queue._lines["a"]
    for number in range(100):
        queue.leave(PodKey("a", f"p{number}"))

    assert queue._lines["a"] is line, "it is kept for the next pods"
    for table in (line.pods, line.groups):
        assert sys.getsizeof(table) == sys.getsizeof({})


def test_pods_are_counted_by_the_reason_of_their_group(queue, account):
    group = join(queue, "web", a_bill(account))
    other = join(queue, "other", a_bill(account, 2))
    assert queue.count_of(None) == 2

    queue.set_reason(group, Reason.QUOTA_EXCEEDED)
    join(queue, "db", group.bill)
    queue.set_reason(group, Reason.QUOTA_EXCEEDED)
    queue.set_reason(other, Reason.BEHIND_ANOTHER)

    counted = {reason: queue.count_of(reason) for reason in (None, *Reason)}
    assert {reason: count for reason, count in counted.items() if count} == {
        Reason.QUOTA_EXCEEDED: 2,
        Reason.BEHIND_ANOTHER: 1,
    }


# ------------------------------------------------------------------ parking


def test_those_are_woken_for_whom_the_room_is_enough(queue, account):
    small, large = join(queue, "s", a_bill(account, 2)), join(queue, "l", a_bill(account, 4))
    popped(queue)
    park(queue, small, account, 2)
    park(queue, large, account, 4)
    account.charged = 8 * 10**9

    queue.wake(account)
    assert popped(queue) == [small]
    queue.wake(account)
    assert popped(queue) == []
    account.charged = 0
    queue.wake(account)
    assert popped(queue) == [large]
    queue.wake(account)
    assert popped(queue) == []


def test_of_those_who_fit_one_after_another_is_tried_in_order(queue, account):
    groups = [join(queue, f"p{age}", a_bill(account, age), age) for age in (1, 2, 3, 4)]
    popped(queue)
    for wanted, group in enumerate(groups, start=1):
        park(queue, group, account, wanted)

    queue.wake(account)
    assert queue.pop() is groups[0]
    account.charged = 8 * 10**9
    assert queue.pop() is groups[1]
    assert queue.pop() is None


def test_the_next_of_a_group_waits_for_those_between(queue, account):
    bill = a_bill(account)
    group, between = join(queue, "p1", bill, 1), join(queue, "p2", a_bill(account), 2)
    join(queue, "p3", bill, 3)
    popped(queue)
    for each in (group, between):
        park(queue, each, account, 1)

    queue.wake(account)
    assert queue.pop() is group
    queue.leave(PodKey("a", "p1"))

    assert popped(queue) == [between, group]


def test_the_next_is_tried_if_the_one_taken_leaves(queue, account):
    first, second = join(queue, "p1", a_bill(account), 1), join(queue, "p2", a_bill(account), 2)
    popped(queue)
    for group in (first, second):
        park(queue, group, account, 1)
    queue.wake(account)

    queue.leave(PodKey("a", "p1"))

    assert popped(queue) == [second]


def test_one_that_fits_only_now_and_ranks_before_the_one_taken_goes_first(queue, account):
    large, small = join(queue, "l", a_bill(account, 9), 1), join(queue, "s", a_bill(account), 2)
    popped(queue)
    park(queue, large, account, 9)
    park(queue, small, account, 1)
    account.charged = 5 * 10**9
    queue.wake(account)

    account.charged = 0
    queue.wake(account)

    assert popped(queue) == [large, small]


# ------------------------------------------------------------------ holding


def test_a_holder_stands_before_those_who_rank_behind_it(queue, account):
    holder, behind = join(queue, "h", a_bill(account), 5), join(queue, "b", a_bill(account), 6)
    assert queue.holder_before(behind) is None

    queue.hold(holder, [KEY])

    assert queue.holder_before(behind) == (KEY, holder)
    assert queue.holder_before(holder) is None
    elsewhere = Account(a_key("a/other"), "pods", Quantity.parse("1"))
    assert queue.holder_before(join(queue, "x", a_bill(elsewhere), 9)) is None
    assert queue.holder_before(join(queue, "y", a_bill(account), 4)) is None


def test_the_first_of_several_holders_counts(queue, account):
    late, early = join(queue, "l", a_bill(account), 5), join(queue, "e", a_bill(account), 4)
    last = join(queue, "z", a_bill(account), 9)
    queue.hold(late, [KEY])
    assert queue.holder_before(late) is None
    queue.hold(early, [KEY])

    assert queue.holder_before(late) == (KEY, early)
    queue.hold(early, ())
    assert queue.holder_before(last) == (KEY, late)


def test_those_behind_are_woken_when_the_holder_lets_go(queue, account):
    holder, behind = join(queue, "h", a_bill(account), 5), join(queue, "b", a_bill(account), 6)
    popped(queue)
    queue.hold(holder, [KEY])
    queue.park_behind(behind, KEY)

    queue.hold(holder, [KEY])
    assert popped(queue) == []
    queue.hold(holder, ())

    assert popped(queue) == [behind]


def test_those_behind_another_holder_are_not_woken(queue, account):
    first, second = join(queue, "f", a_bill(account), 5), join(queue, "s", a_bill(account), 6)
    parked, behind = join(queue, "p", a_bill(account), 7), join(queue, "b", a_bill(account), 8)
    popped(queue)
    for holder in (first, second):
        queue.hold(holder, [KEY])
    queue.park_behind(behind, KEY)
    park(queue, parked, account, 1)

    queue.hold(first, ())
    queue.wake(account)
    assert popped(queue) == []
    queue.hold(second, ())

    assert popped(queue) == [parked, behind]


def test_a_hold_of_several_quotas_can_be_of_fewer_later(queue, account):
    other = a_key("a/other")
    holder, behind = join(queue, "h", a_bill(account), 5), join(queue, "b", a_bill(account), 6)
    queue.hold(holder, [KEY, other])
    queue.hold(holder, [other])
    assert queue.holder_before(behind) is None

    queue.hold(holder, [KEY, other])

    assert queue.holder_before(behind) == (KEY, holder)


def test_a_hold_ends_with_the_pod_it_was_for(queue, account):
    bill = a_bill(account)
    holder, behind = join(queue, "h", bill, 5), join(queue, "b", a_bill(account), 6)
    join(queue, "h2", bill, 9)
    for ending in (
        lambda: queue.leave(PodKey("a", "h")),
        lambda: join(queue, "h2", bill, 10),
        lambda: join(queue, "h3", bill, 8),
    ):
        popped(queue)
        queue.hold(holder, [KEY])
        queue.park_behind(behind, KEY)

        ending()

        assert set(popped(queue)) == {holder, behind}
        assert queue.holder_before(behind) is None


def test_whoever_is_parked_elsewhere_is_not_behind_any_more(queue, account):
    behind, other = join(queue, "b", a_bill(account), 6), join(queue, "o", a_bill(account), 7)
    holder = join(queue, "h", a_bill(account), 5)
    popped(queue)
    queue.hold(holder, [KEY])
    for group in (behind, other):
        queue.park_behind(group, KEY)
    park(queue, behind, account, 99)

    queue.hold(holder, ())

    assert popped(queue) == [other]
