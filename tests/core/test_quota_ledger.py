"""The ledger: charges, promises on top of them, and the accounts they are counted in."""

import pytest

from bursar.core.model.quantity import Format, Quantity
from bursar.core.quota.account import NO_CHARGE, Account, Bill, Charge, to_quantity
from bursar.core.quota.ledger import Ledger, PodKey, Reservation
from bursar.core.quota.refusal import Reason
from support.builders.pods import parsed
from support.builders.quota_books import a_key, a_profile, a_row

POD = PodKey("a", "web")
OTHER = PodKey("a", "db")
KEY = a_key("a/q")
M = 1_000_000
"""Nanos in a milli."""


def an_account(resource="cpu", hard="1"):
    return Account(KEY, resource, Quantity.parse(hard))


def a_bill(account, amount, *, namespace="a"):
    charge = Charge(parsed(f"{account.resource}={amount}"))
    item = (account, *charge.amounts[account.resource])
    return Bill(a_profile(namespace), charge, [item])


def promise(bill, id="r", pod=POD):
    return Reservation(id=id, bill=bill, pod=pod, row=a_row(str(pod)))


def reserve(ledger, reservation):
    """Hold the reservation if it fits, as the books do; the refusals if it does not."""
    refusals = ledger.refusals(reservation.pod, reservation.bill)
    if not refusals:
        ledger.hold(reservation)
    return refusals


@pytest.fixture
def ledger():
    return Ledger()


@pytest.fixture
def account():
    return an_account()


# ------------------------------------------------------------------ accounts


def test_a_charge_leaves_out_what_is_zero():
    charge = Charge(parsed("cpu=0 memory=1Ki"))

    assert list(charge.amounts) == ["memory"]
    assert not NO_CHARGE.amounts


@pytest.mark.parametrize(
    ("nanos", "format", "text"),
    [
        (1536 * 1024 * 10**9, Format.BINARY_SI, "1536Ki"),
        (1500 * M, Format.DECIMAL_SI, "1500m"),
        (-1500 * M, Format.DECIMAL_SI, "-1500m"),
        (10**9 * 10**20, Format.DECIMAL_SI, "100E"),
        (10**27 + 1, Format.DECIMAL_SI, "1000000000000000000000000001n"),
    ],
)
def test_nanos_are_shown_in_the_format_asked_for(nanos, format, text):
    assert str(to_quantity(nanos, format)) == text


def test_an_account_speaks_the_format_of_most_pods():
    account = an_account("memory", "10G")
    assert account.format is Format.DECIMAL_SI
    binary, decimal = a_bill(account, "1Ki"), a_bill(account, "1M")

    for bill in (binary, binary, decimal):
        bill.charge_once()

    assert account.used.format is Format.BINARY_SI
    binary.discharge_once()
    binary.discharge_once()
    assert str(account.used) == "1M"


def test_a_debt_is_what_goes_beyond_the_limit(ledger, account):
    ledger.charge(POD, a_bill(account, "800m"))
    assert (account.free, account.debt) == (200 * M, 0)

    account.set_hard(Quantity.parse("500m"))

    assert (account.free, account.debt) == (-300 * M, 300 * M)


def test_a_refusal_counts_what_is_promised_as_used(ledger, account):
    ledger.charge(OTHER, a_bill(account, "300m"))
    assert reserve(ledger, promise(a_bill(account, "400m"))) == ()

    [refusal] = a_bill(account, "500m").refusals()

    assert "requested: cpu=500m, used: cpu=700m, limited: cpu=1" in refusal.message()


def test_shares_are_charged_and_limit_nothing(account):
    share = an_account("cpu", "0")
    bill = Bill(a_profile("a"), NO_CHARGE, [(account, 500 * M, 1)], [(share, 500 * M, 1)])

    assert bill.fits()
    bill.charge_once()
    assert (account.charged, share.charged) == (500 * M, 500 * M)
    bill.discharge_once()
    assert (account.charged, share.charged, share.format_counts) == (0, 0, [0, 0, 0])


# ------------------------------------------------------------------ facts


def test_a_pod_is_charged_once_however_often_it_is_seen(ledger, account):
    bill = a_bill(account, "300m")

    ledger.charge(POD, bill)
    ledger.charge(POD, bill)

    assert account.charged == 300 * M
    assert (ledger.pod_count, ledger.bill_of(POD)) == (1, bill)
    assert str(POD) == "a/web"
    assert dict(ledger.pods_of("a")) == {"web": bill}
    assert dict(ledger.pods_of("b")) == {}


def test_another_bill_takes_the_place_of_the_first(ledger, account):
    ledger.charge(POD, a_bill(account, "300m"))
    ledger.charge(POD, a_bill(account, "100m"))

    assert account.charged == 100 * M
    assert account in ledger.freed


def test_what_a_pod_used_is_free_when_it_ends(ledger, account):
    ledger.charge(POD, a_bill(account, "300m"))
    ledger.charge(OTHER, a_bill(account, "200m"))
    assert not ledger.freed

    ledger.discharge(POD)
    ledger.discharge(POD)
    ledger.discharge(PodKey("b", "web"))

    assert account.charged == 200 * M
    assert list(ledger.freed) == [account]
    assert ledger.touched == {KEY}
    ledger.discharge(OTHER)
    assert ledger.pod_count == 0


# ------------------------------------------------------------------ promises


def test_a_promise_takes_room_until_it_is_cancelled(ledger, account):
    assert reserve(ledger, promise(a_bill(account, "700m"))) == ()
    [refusal] = reserve(ledger, promise(a_bill(account, "400m"), "s", OTHER))

    assert refusal.reason is Reason.QUOTA_EXCEEDED
    assert (account.promised, ledger.reservation_count) == (700 * M, 1)
    ledger.cancel("r")
    ledger.cancel("r")
    assert (account.promised, ledger.reservation_count) == (0, 0)
    assert list(ledger.freed) == [account]
    assert ledger.reservations_of(POD) == ()


def test_asking_twice_is_asking_once(ledger, account):
    for _ in range(2):
        assert reserve(ledger, promise(a_bill(account, "700m"))) == ()
    assert account.promised == 700 * M

    assert reserve(ledger, promise(a_bill(account, "200m"))) == ()

    assert account.promised == 200 * M


def test_a_promise_for_a_pod_holds_only_what_goes_beyond_its_charge(ledger, account):
    ledger.charge(POD, a_bill(account, "600m"))

    assert reserve(ledger, promise(a_bill(account, "900m"))) == ()
    assert account.promised == 300 * M
    [refusal] = reserve(ledger, promise(a_bill(account, "1100m"), "s"))

    assert str(refusal.shortages[0].requested) == "200m"
    assert reserve(ledger, promise(a_bill(account, "1"), "s")) == ()
    assert account.promised == 400 * M
    assert [each.id for each in ledger.reservations_of(POD)] == ["r", "s"]
    ledger.cancel("s")
    assert account.promised == 300 * M


def test_fact_and_promise_never_count_twice_in_whichever_order_they_come(ledger, account):
    reserve(ledger, promise(a_bill(account, "700m")))
    ledger.charge(POD, a_bill(account, "700m"))
    assert (account.charged, account.promised) == (700 * M, 0)

    ledger.charge(POD, a_bill(account, "400m"))
    assert (account.charged, account.promised) == (400 * M, 300 * M)

    ledger.discharge(POD)
    assert (account.charged, account.promised) == (0, 700 * M)


def test_a_pod_may_shrink_even_where_there_is_a_debt(ledger, account):
    ledger.charge(POD, a_bill(account, "900m"))
    account.set_hard(Quantity.parse("100m"))

    assert reserve(ledger, promise(a_bill(account, "800m"))) == ()
    assert reserve(ledger, promise(a_bill(account, "901m"), "s")) != ()


def test_a_promise_can_be_held_although_it_does_not_fit(ledger, account):
    """An earlier leader made it, and it may be needed any moment."""
    ledger.hold(promise(a_bill(account, "700m"), "old"))
    ledger.hold(promise(a_bill(account, "900m"), "older", OTHER))

    assert account.promised == 1600 * M
    assert ledger.reservation("old").pod == POD
    ledger.cancel("older")
    assert account.promised == 700 * M


# ------------------------------------------------------------------ other quotas


def test_a_namespace_is_billed_anew_with_its_promises(ledger, account):
    new = an_account("cpu", "2")
    ledger.charge(POD, a_bill(account, "300m"))
    ledger.charge(PodKey("b", "web"), a_bill(account, "100m", namespace="b"))
    reserve(ledger, promise(a_bill(account, "500m")))
    reserve(ledger, promise(a_bill(account, "50m", namespace="b"), "b", PodKey("b", "db")))

    def rebill(bill):
        return Bill(bill.profile, bill.charge, [(new, *rest) for _, *rest in bill.items])

    for _ in ledger.rebill_steps("a", rebill):
        pass

    assert (account.charged, account.promised) == (100 * M, 50 * M)
    assert (new.charged, new.promised) == (300 * M, 200 * M)
    ledger.cancel("r")
    assert new.promised == 0
