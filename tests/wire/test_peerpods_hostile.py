"""Pods made to keep the webhook busy: refused before much is done for them."""

import pytest

from bursar.core.peerpods.decision import ANNOTATIONS_BYTES_MAX, ENTRY_BYTES_MIN, Denied
from bursar.core.peerpods.validation.resources import PROBLEMS_MAX
from bursar.wire.peerpods.pod import CLAIMS_MAX, CONTAINERS_MAX, NAME_LENGTH_MAX
from bursar.wire.peerpods.record import format_record, parse_record
from support.builders.peer_pods import RECORD, VM, a_peer_pod, decided, init, main, rewritten

ENTRIES_MAX = ANNOTATIONS_BYTES_MAX // ENTRY_BYTES_MIN
LONG = "a" * (NAME_LENGTH_MAX + 1)


def claims(count):
    return [{"name": f"c{index}"} for index in range(count)]


def extended(count):
    return {f"example.com/{index}": "1" for index in range(count)}


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (
            a_peer_pod(main(), containers=[{}] * (CONTAINERS_MAX + 1)),
            "spec.containers: 16385 are more than any API server can store",
        ),
        (
            a_peer_pod(main(), initContainers=[{}] * (CONTAINERS_MAX + 1)),
            "spec.initContainers: 16385 are more than any API server can store",
        ),
        (
            a_peer_pod(main(resources={"claims": claims(CLAIMS_MAX + 1)})),
            "spec.containers[0].resources.claims: 32769 are too many to be written down",
        ),
        (
            a_peer_pod(main(resources={"claims": [{"name": "a"}, {"name": LONG}]})),
            "spec.containers[0].resources.claims[1]: a name of more than 1024 characters",
        ),
        (
            a_peer_pod(main(resources={"claims": [{"name": "a", "request": LONG}]})),
            "spec.containers[0].resources.claims[0]: a name of more than 1024 characters",
        ),
        (
            a_peer_pod(main(resources={"limits": {LONG: "1"}})),
            "spec.containers[0].resources.limits: a name of more than 1024 characters",
        ),
        (
            a_peer_pod(
                main(resources={"limits": extended(ENTRIES_MAX - 1)}),
                main(resources={"claims": claims(1)}),
                resources={"limits": {"cpu": "1"}},
            ),
            f"written down in {RECORD}, and 32769 amounts and claims have no room there;",
        ),
        (
            a_peer_pod(main(name="a"), main(name="a")),
            'spec.containers[1].name: Duplicate value: "a"',
        ),
        (a_peer_pod(main(name=""), main(name="")), "spec.containers[1].name: Required value"),
        (
            a_peer_pod(main(name="a"), init(name="a")),
            'spec.initContainers[0].name: Duplicate value: "a"',
        ),
    ],
    ids=lambda each: each[:60] if isinstance(each, str) else "",
)
def test_more_than_a_pod_can_be_is_refused_at_once(raw, message):
    outcome = decided(raw)

    assert isinstance(outcome, Denied)
    assert message in outcome.message


def test_only_the_first_problems_are_told_and_each_lists_the_claims_once():
    known = [{"name": f"known-{index}"} for index in range(1000)]
    outcome = decided(a_peer_pod(main(resources={"claims": claims(1000)}), resourceClaims=known))

    assert isinstance(outcome, Denied)
    assert outcome.message.count("Not found") == PROBLEMS_MAX
    assert outcome.message.count("known-999") == PROBLEMS_MAX


def test_what_stays_in_the_pod_is_left_to_the_api_server():
    raw = a_peer_pod(main("cpu=1"), resourceClaims=[{"name": "-"}, {"name": ""}])

    assert rewritten(raw).document["spec"]["resourceClaims"] is raw["spec"]["resourceClaims"]


def test_that_there_is_one_vm_is_said_once():
    wrong = [main(f"{VM}={count}", f"{VM}={count}") for count in (2, 3, 2, 1)]

    assert rewritten(a_peer_pod(*wrong)).warnings == (
        f"{VM}: a peer pod has exactly one, not 2, 3",
    )


def test_claims_on_record_are_looked_up_and_not_searched():
    """Claims are told once, and thousands that are on record are not compared one by one."""
    compared = 0

    class Counted(str):
        __slots__ = ()

        def __eq__(self, other):
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    names = [f"c{index}" for index in range(300)]
    spec = {"resourceClaims": [{"name": name} for name in names]}
    first = rewritten(a_peer_pod(main(resources={"claims": claims(300)}), **spec))
    again = first.document
    again["spec"]["containers"][0]["resources"]["claims"] = [
        {"name": Counted(name)} for name in names
    ]
    second = decided(again)

    assert not isinstance(second, Denied)
    assert second.warnings == ()
    assert 0 < compared < 300 * 20
    text = first.document["metadata"]["annotations"][RECORD]
    assert format_record(parse_record(text)) == text


def test_large_annotations_are_not_yet_too_large():
    raw = a_peer_pod(main("cpu=1"), annotations={"example.com/large": "x" * 200_000})

    assert RECORD in rewritten(raw).document["metadata"]["annotations"]
