"""What is decided about pods: the gate, who may lift it, and who may grow."""

import pytest

from bursar.app.admission.pods import (
    MAY_NOT_REMOVE,
    MAY_REMOVE,
    NOT_REMOVED,
    Denied,
    Granted,
    Installation,
    ResizeRequest,
    Unreachable,
    WhenUnreachable,
    judge_creation,
    judge_growth,
    judge_update,
    may_grow,
)
from bursar.core.model.pod import (
    Pod,
)
from bursar.core.quota.quota import GATE
from support.builders.pods import a_pod, main, resize, status
from support.builders.reviews import OneAnswerReservations

HOME = Installation("aaq")


def test_a_pod_without_gates_gets_a_list_with_ours():
    verdict = judge_creation((), "", "team-a", HOME)

    assert (verdict.is_allowed, verdict.code) == (True, 202)
    assert verdict.message == "Pod has successfully gated"
    assert verdict.patch == (
        {"op": "add", "path": "/spec/schedulingGates", "value": [{"name": GATE}]},
    )


def test_a_pod_with_other_gates_gets_ours_behind_them():
    verdict = judge_creation(("testSg",), "", "team-a", HOME)

    assert verdict.patch == (
        {"op": "add", "path": "/spec/schedulingGates/-", "value": {"name": GATE}},
    )


def test_a_pod_that_has_the_gate_is_left_alone():
    verdict = judge_creation(("a", GATE), "", "team-a", HOME)

    assert (verdict.is_allowed, verdict.code, verdict.patch) == (True, 202, ())
    assert verdict.message == "Pod has successfully gated"


def test_a_pod_that_names_its_node_is_refused_and_told_what_to_do():
    verdict = judge_creation((), "north", "team-a", HOME)

    assert (verdict.is_allowed, verdict.code, verdict.patch) == (False, 403, ())
    assert "remove spec.nodeName" in verdict.message
    assert "spec.affinity.nodeAffinity" in verdict.message


@pytest.mark.parametrize("namespace", ["kube-system", "aaq"])
def test_what_keeps_the_cluster_alive_is_never_gated(namespace):
    verdict = judge_creation((), "north", namespace, HOME)

    assert (verdict.is_allowed, verdict.patch) == (True, ())


@pytest.mark.parametrize(
    ("before", "after", "user", "message"),
    [
        ((), (), "me", NOT_REMOVED),
        (("a",), (), "me", NOT_REMOVED),
        ((GATE, "a"), (GATE,), "me", NOT_REMOVED),
        ((GATE,), (), HOME.controller_user, MAY_REMOVE),
        ((GATE,), (), "me", MAY_NOT_REMOVE),
        ((GATE,), (), "system:serviceaccount:other:aaq-controller", MAY_NOT_REMOVE),
        ((GATE,), ("other",), "", MAY_NOT_REMOVE),
    ],
)
def test_only_the_controller_lifts_the_gate(before, after, user, message):
    verdict = judge_update(before, after, user, HOME)

    assert verdict.message == message
    assert (verdict.is_allowed, verdict.code) == (
        (False, 403) if message == MAY_NOT_REMOVE else (True, 202)
    )


# ------------------------------------------------------------------ resizes


def resized_pod(cpu: str, limit: str = "", *, applied: str = "", reason: str = "") -> Pod:
    """`applied` is the request that the kubelet reports, `reason` why it has not resized yet."""
    container = main(f"cpu={cpu}", f"cpu={limit}" if limit else "")
    statuses = (status("c0", f"cpu={applied}"),) if applied else ()
    return a_pod(
        container, container_statuses=statuses, conditions=resize(reason) if reason else ()
    )


@pytest.mark.parametrize(
    ("before", "after", "grows"),
    [
        (resized_pod("1"), resized_pod("1"), False),
        (resized_pod("1"), resized_pod("500m"), False),
        (resized_pod("1"), resized_pod("1001m"), True),
        (resized_pod("1", "2"), resized_pod("1", "3"), True),
        (resized_pod("1", "3"), resized_pod("1", "2"), False),
        (resized_pod("1"), resized_pod("1", "2"), True),
        # Still as large as before: the room was never given back.
        (resized_pod("1", applied="2"), resized_pod("2", applied="2"), False),
        (resized_pod("1", applied="2"), resized_pod("3", applied="2"), True),
        # The node refused 4, so 1 is charged; it may accept 3.
        (
            resized_pod("4", applied="1", reason="Infeasible"),
            resized_pod("3", applied="1", reason="Infeasible"),
            True,
        ),
        (
            resized_pod("4", applied="1", reason="Infeasible"),
            resized_pod("1", applied="1", reason="Infeasible"),
            False,
        ),
    ],
)
def test_growth_is_more_than_what_is_charged_now(before, after, grows):
    assert may_grow(before, after) is grows


REQUEST = ResizeRequest(
    id="r", namespace="team-a", name="p", uid="u", old=b"hidden", new=b"hidden", is_dry_run=False
)


async def test_growth_that_is_granted_is_allowed():
    verdict = await judge_growth(REQUEST, OneAnswerReservations(Granted()), WhenUnreachable.DENY)

    assert (verdict.is_allowed, verdict.code, verdict.warnings) == (True, 202, ())


async def test_growth_that_is_denied_is_refused_in_the_desks_words():
    verdict = await judge_growth(
        REQUEST, OneAnswerReservations(Denied("full")), WhenUnreachable.ALLOW
    )

    assert (verdict.is_allowed, verdict.code, verdict.message) == (False, 403, "full")


async def test_growth_nobody_can_judge_is_refused_for_now():
    verdict = await judge_growth(
        REQUEST, OneAnswerReservations(Unreachable("nobody leads")), WhenUnreachable.DENY
    )

    assert (verdict.is_allowed, verdict.code) == (False, 503)
    assert "nobody leads" in verdict.message
    assert "try again" in verdict.message


async def test_growth_nobody_can_judge_passes_with_a_warning_where_that_was_chosen():
    verdict = await judge_growth(
        REQUEST, OneAnswerReservations(Unreachable("nobody leads")), WhenUnreachable.ALLOW
    )

    assert (verdict.is_allowed, verdict.code) == (True, 202)
    assert verdict.warnings == ("resized without a check against quotas: nobody leads",)


def test_a_resize_request_prints_no_pod():
    assert "hidden" not in repr(REQUEST)
