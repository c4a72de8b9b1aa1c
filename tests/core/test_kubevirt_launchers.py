"""Which pod of a VM is its source, which the target of a migration, and which have no role."""

from dataclasses import replace

import pytest

from bursar.core.kubevirt.launchers import Launcher, Role, roles_of
from bursar.core.kubevirt.vmi import Guest, Migration, Vmi

OLD, NEW = Launcher("old", 1, "a"), Launcher("new", 2, "b", "m-1", "move")
STRANGER = Launcher("stranger", 1, "c")
MOVE = Migration(namespace="team", name="move", uid="m-1", vmi_name="db", created_s=9)


def a_vm(node="a", pods=()):
    guest = Guest()
    return Vmi(
        namespace="team", name="db", uid="u", guest=guest, node_name=node, migration_pods=pods
    )


def roles(launchers, node="a", migrations=(MOVE,), pods=()):
    found = roles_of(a_vm(node, pods), launchers, migrations)
    return {each.name: found.of(each.name) for each in launchers}


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("a", {"old": Role.SOURCE, "new": Role.TARGET}),
        ("b", {"old": Role.LEFTOVER, "new": Role.SOURCE}),
        ("", {"old": Role.LEFTOVER, "new": Role.SOURCE}),
    ],
    ids=["during a migration", "after it", "before the VM has a node, the newest runs it"],
)
def test_the_node_of_the_vm_tells_source_and_target_apart(node, expected):
    assert roles([OLD, NEW], node, pods=("old", "new")) == expected


def a_move(**fields):
    return replace(MOVE, **fields)


@pytest.mark.parametrize(
    "migrations",
    [
        (),
        (a_move(vmi_name="other"),),
        (a_move(uid="m-2"),),
        (a_move(name="again"),),
        (MOVE, a_move(name="later", uid="m-2", created_s=10)),
        (a_move(is_failed=True), a_move(name="later", uid="m-2", created_s=10, is_failed=True)),
    ],
    ids=[
        *("none", "another VM's", "another uid", "another name", "a later one counts"),
        "two have failed, and it is of the earlier",
    ],
)
def test_a_second_launcher_without_its_migration_has_no_role(migrations):
    assert roles([OLD, NEW], migrations=migrations) == {"old": Role.SOURCE, "new": None}


def test_the_target_of_the_migration_that_failed_last_is_a_leftover():
    failed = (a_move(is_failed=True),)

    assert roles([OLD, NEW], migrations=failed) == {"old": Role.SOURCE, "new": Role.LEFTOVER}


@pytest.mark.parametrize("is_failed", [True, False])
def test_of_the_pods_that_claim_to_be_made_by_one_migration_at_most_one_has_a_role(is_failed):
    """Else a tenant that forges a thousand makes each change of one of them count all again."""
    forged = [NEW._replace(name=f"new-{number}") for number in range(20)]
    migrations = (a_move(is_failed=is_failed),)

    found = roles_of(a_vm(), [OLD, NEW, *forged], migrations)
    assert set(found.names) == {"old", "new"}


def test_a_pod_that_the_status_of_the_vm_does_not_name_is_no_leftover():
    found = roles([OLD, NEW, STRANGER], node="b", pods=("old", "new"))

    assert found == {"old": Role.LEFTOVER, "new": Role.SOURCE, "stranger": None}
    assert roles([OLD, NEW], node="b") == {"old": None, "new": Role.SOURCE}


def test_a_migration_that_failed_does_not_hide_an_earlier_one():
    failed = a_move(name="later", uid="m-2", created_s=10, is_failed=True)

    assert roles([OLD, NEW], migrations=[MOVE, failed])["new"] is Role.TARGET


@pytest.mark.parametrize("order", [1, -1])
def test_of_migrations_of_the_same_second_the_last_by_name_counts(order):
    later = a_move(name="move-2", uid="m-2")

    found = roles(
        [OLD, NEW, Launcher("newer", 3, "c", "m-2", "move-2")], migrations=[MOVE, later][::order]
    )
    assert found == {"old": Role.SOURCE, "new": None, "newer": Role.TARGET}


@pytest.mark.parametrize(
    ("launchers", "expected"),
    [
        ([OLD, NEW], {"old": Role.SOURCE, "new": Role.TARGET}),
        ([NEW], {"new": Role.SOURCE}),
        ([OLD, STRANGER], {"old": Role.SOURCE, "stranger": None}),
    ],
    ids=["the source left its node", "only the target", "of the same second, the first by name"],
)
def test_9_3_1_a_vm_without_a_pod_on_its_node_is_still_paid_for(launchers, expected):
    assert roles(launchers, node="elsewhere") == expected


def test_a_vm_without_launchers_has_no_roles():
    assert roles_of(a_vm(), [], [MOVE]).of("any") is None
    assert roles_of(a_vm(), [], [MOVE]).names == ()
