"""The waiting room: parties, where they are parked, and who holds which quota."""

import pytest

from bursar.core.model.quantity import Quantity
from bursar.core.quota.account import NO_CHARGE, Account, Bill, Item
from bursar.core.quota.ledger import PodKey
from bursar.core.quota.waiting import Party, WaitingRoom
from support.quota_notation import a_key, a_profile, a_row, changed

KEY = a_key("a/q")


@pytest.fixture
def account():
    return Account(KEY, "pods", Quantity.parse("10"))


@pytest.fixture
def room():
    return WaitingRoom()


def a_bill(account, wanted=1, **facts):
    return Bill(a_profile("a", **facts), NO_CHARGE, [Item(account, wanted * 10**9, 1)])


def join(room, name, bill, created_s=0, *, ignores_priority=False):
    priority = bill.profile.priority
    row = a_row(f"a/{name}", created_s=created_s, priority=priority)
    room.join(row, bill, ignores_priority=ignores_priority)
    return room.party_of(PodKey("a", name))


def be_calm(room):
    room.restless.clear()


# ------------------------------------------------------------------ parties


def test_the_oldest_of_a_party_goes_first_then_by_name(account):
    party = Party(a_bill(account), ignores_priority=False)
    for name, created_s in (("c", 2), ("b", 1), ("a", 2)):
        party.put(a_row(f"a/{name}", created_s=created_s))

    assert party.head().name == "b"
    assert [row.name for row in party.ordered()] == ["b", "a", "c"]
    assert party.rank() == (0, 1, "a", "b")
    party.take("b")
    assert party.head().name == "a"
    assert party.take("b") is None


def test_priority_goes_before_age_unless_it_is_ignored(account):
    bill = a_bill(account, priority=7)
    for ignores, first in ((False, -7), (True, 0)):
        party = Party(bill, ignores_priority=ignores)
        party.put(a_row("a/web", created_s=3, priority=7))

        assert party.rank() == (first, 3, "a", "web")


def test_a_member_that_comes_back_younger_loses_its_place(account):
    party = Party(a_bill(account), ignores_priority=False)
    party.put(a_row("a/web", created_s=1))
    party.put(a_row("a/db", created_s=2))

    party.put(a_row("a/web", created_s=3))

    assert party.head().name == "db"
    assert list(party.untold) == ["web", "db"]


def test_news_of_a_member_takes_no_further_place(account):
    party = Party(a_bill(account), ignores_priority=False)
    row = a_row("a/web")
    for _ in range(100):
        party.put(row)
        row = changed(row)

    assert len(party._arrivals) == 1


# ------------------------------------------------------------------ coming and going


def test_pods_of_one_bill_wait_as_one_party(room, account):
    bill = a_bill(account)

    assert join(room, "web", bill) is join(room, "db", bill)
    assert len(room) == 2
    assert list(room.parties()) == room.parties_in("a")
    assert room.parties_in("b") == []


def test_a_pod_with_another_bill_joins_another_party(room, account):
    first = join(room, "web", a_bill(account))
    join(room, "db", first.bill)
    second = join(room, "web", a_bill(account, 2))

    assert first is not second
    assert list(first.members) == ["db"]
    assert len(room) == 2


def test_a_party_is_tried_when_somebody_joins_or_its_first_changes(room, account):
    bill = a_bill(account)
    party = join(room, "web", bill, 5)
    assert list(room.restless) == [party]
    be_calm(room)

    join(room, "web", bill, 5)
    assert not room.restless
    join(room, "web", bill, 6)
    assert list(room.restless) == [party]
    be_calm(room)
    join(room, "db", bill, 9)
    assert list(room.restless) == [party]


def test_a_party_is_tried_when_its_first_leaves(room, account):
    bill = a_bill(account)
    party = join(room, "first", bill, 1)
    join(room, "second", bill, 2)
    join(room, "third", bill, 3)
    be_calm(room)

    room.leave(PodKey("a", "second"))
    assert not room.restless
    assert room.leave(PodKey("a", "second")) is None
    assert room.leave(PodKey("a", "first")).name == "first"

    assert list(room.restless) == [party]


def test_nothing_is_left_of_a_party_without_members(room, account):
    party = join(room, "web", a_bill(account))
    room.park(party, [(account, 1)])
    room.hold(party, [KEY])

    room.leave(PodKey("a", "web"))

    assert not any((len(room), room.restless, room._parties, room._parked, room._parked_at))
    assert not any((room._holds, room._held_by, room._first, room._behind, room._behind_at))


# ------------------------------------------------------------------ parking


def test_those_are_woken_for_whom_the_room_is_enough(room, account):
    small, large = join(room, "s", a_bill(account, 2)), join(room, "l", a_bill(account, 4))
    room.park(small, [(account, 2 * 10**9)])
    room.park(large, [(account, 4 * 10**9)])
    be_calm(room)
    account.charged = 8 * 10**9

    room.wake(account)
    assert list(room.restless) == [small]
    be_calm(room)
    room.unpark(small)
    room.wake(account)
    assert not room.restless
    room.unpark(large)
    room.wake(account)
    assert not room.restless


# ------------------------------------------------------------------ holding


def test_a_holder_stands_before_those_who_rank_behind_it(room, account):
    holder, behind = join(room, "h", a_bill(account), 5), join(room, "b", a_bill(account), 6)
    assert room.holder_before(behind, behind.rank()) is None

    room.hold(holder, [KEY])

    assert room.holder_before(behind, behind.rank()) == (KEY, holder)
    assert room.holder_before(holder, holder.rank()) is None
    elsewhere = Account(a_key("a/other"), "pods", Quantity.parse("1"))
    assert room.holder_before(join(room, "x", a_bill(elsewhere), 9), (0, 9, "a", "x")) is None
    assert room.holder_before(join(room, "y", a_bill(account), 4), (0, 4, "a", "y")) is None


def test_the_first_of_several_holders_counts(room, account):
    late, early = join(room, "l", a_bill(account), 5), join(room, "e", a_bill(account), 4)
    room.hold(late, [KEY])
    assert room.holder_before(late, (0, 9, "", "")) is None
    room.hold(early, [KEY])

    assert room.holder_before(late, late.rank()) == (KEY, early)
    room.hold(early, ())
    assert room.holder_before(early, (0, 9, "", "")) == (KEY, late)


def test_those_behind_are_woken_when_the_holder_lets_go(room, account):
    holder, behind = join(room, "h", a_bill(account), 5), join(room, "b", a_bill(account), 6)
    room.hold(holder, [KEY])
    room.park_behind(behind, KEY)
    be_calm(room)

    room.hold(holder, [KEY])
    assert not room.restless
    room.hold(holder, ())

    assert list(room.restless) == [behind]


def test_a_hold_ends_with_the_pod_it_was_for(room, account):
    bill = a_bill(account)
    holder, behind = join(room, "h", bill, 5), join(room, "b", a_bill(account), 6)
    join(room, "h2", bill, 9)
    for ending in (
        lambda: room.leave(PodKey("a", "h")),
        lambda: join(room, "h2", bill, 10),
        lambda: join(room, "h3", bill, 8),
    ):
        room.hold(holder, [KEY])
        room.park_behind(behind, KEY)
        be_calm(room)

        ending()

        assert set(room.restless) == {holder, behind}
        assert room.holder_before(behind, (0, 99, "", "")) is None


def test_whoever_is_parked_elsewhere_is_not_behind_any_more(room, account):
    behind, other = join(room, "b", a_bill(account), 6), join(room, "o", a_bill(account), 7)
    holder = join(room, "h", a_bill(account), 5)
    room.hold(holder, [KEY])
    for party in (behind, other):
        room.park_behind(party, KEY)
    room.unpark(behind)
    be_calm(room)

    room.hold(holder, ())

    assert list(room.restless) == [other]
