"""The table of sidecars' answers: who is asked about what, and what a pod costs meanwhile."""

import itertools

import pytest

from bursar.core.counting.counter import Counted, Pending
from bursar.core.counting.pod_body import PodBody
from bursar.core.counting.sidecars import (
    RETRY_MS,
    RETRY_MS_MAX,
    SWEEP_MS,
    SWEEP_MS_MAX,
    TRIALS_BYTES_MAX,
    TRIALS_MAX,
    SidecarCounter,
    SidecarRules,
)
from bursar.core.model.pod_row import Extras
from bursar.core.quota.ledger import PodKey
from support.builders.pods import parsed, texts
from support.builders.quota_books import UNGATED, a_profile, a_row
from support.cluster.scripted_cluster import seeded

TWO = parsed("requests.memory=512Mi")
FOUR = parsed("requests.memory=1Gi")


def counter_of(expected: int = 1, **rules) -> SidecarCounter:
    return SidecarCounter(SidecarRules(expected=expected, **rules), a_body)


def a_body(json: bytes) -> PodBody:
    return PodBody(json, len(json))


def row(name: str, content: str = "1", **fields):
    return a_row(name)._replace(extras=Extras(facts=(a_body(content.encode()),)), **fields)


@pytest.fixture
def counter():
    return counter_of()


def asked(counter, slot, now_ms=0):
    """The names of all pods that the sidecar is asked about now."""
    names = []
    while found := counter.next_question(slot, now_ms):
        names.append(found[0].row.name)
    return names


def answer(counter, slot, amounts, now_ms=0):
    question, _ = counter.next_question(slot, now_ms)
    generation, _ = counter.namespace_of(question)
    return counter.answer(slot, question, generation, amounts)


# ------------------------------------------------------------------ one sidecar


def test_a_pod_waits_for_the_sidecar_and_for_its_answer(counter):
    web = row("a/web")
    counter.see_pod(web)
    assert counter.count(web) == Pending("0 of 1 sidecars are connected")

    slot = counter.connect("one.sock")
    assert counter.count(web) == Pending("waiting for the answer of one.sock")
    assert counter.count_held() == 1

    assert answer(counter, slot, TWO)
    assert counter.count(web) == Counted(TWO, "answer of one.sock")
    assert (counter.count_held(), counter.count_left_out()) == (0, 0)
    assert counter.derive_facts(b"pod") == a_body(b"pod")


def test_a_pod_that_no_sidecar_counts_is_left_to_others(counter):
    web = row("a/web")
    slot = counter.connect("one.sock")
    counter.see_pod(web)

    answer(counter, slot, None)

    assert counter.count(web) is None


def test_a_pod_is_asked_about_once_for_each_content(counter):
    slot = counter.connect("one.sock")
    counter.see_pod(row("a/web"))
    assert asked(counter, slot) == ["web"]

    counter.see_pod(row("a/web"))
    assert asked(counter, slot) == []

    counter.see_pod(row("a/web", "2"))
    assert asked(counter, slot) == ["web"]


def test_a_changed_pod_waits_for_a_new_answer(counter):
    slot = counter.connect("one.sock")
    counter.see_pod(row("a/web"))
    answer(counter, slot, TWO)

    counter.see_pod(row("a/web", "2"))

    assert isinstance(counter.count(row("a/web", "2")), Pending)


def test_pods_that_ended_or_were_not_read_whole_are_not_asked_about(counter):
    slot = counter.connect("one.sock")
    counter.see_pod(row("a/done", phase="Succeeded"))
    counter.see_pod(a_row("a/bare"))

    assert asked(counter, slot) == []
    assert counter.pods() == []
    assert counter.count(a_row("a/bare")) == Pending("the pod has not been read yet")


def test_a_deleted_pod_is_forgotten(counter):
    slot = counter.connect("one.sock")
    for name in ("a/web", "a/db"):
        counter.see_pod(row(name, name))
    counter.lose_pod(PodKey("a", "web"))
    counter.lose_pod(PodKey("a", "unknown"))
    assert asked(counter, slot) == ["db"]

    counter.lose_pod(PodKey("a", "db"))
    counter.lose_pod(PodKey("a", "db"))

    assert counter.pods() == []


def test_a_sidecar_may_charge_names_of_pods_and_of_applications(counter):
    assert counter.may_charge("instances/notebook")
    assert counter.may_charge("requests.example.com/gpu")
    assert counter.may_charge("count/pods")
    assert not counter.may_charge("services")


def test_namespaces_take_turns(counter):
    slot = counter.connect("one.sock")
    for name in ("a/1", "a/2", "a/3", "b/4"):
        counter.see_pod(row(name, name))

    assert asked(counter, slot) == ["1", "4", "2", "3"]


# ------------------------------------------------------------------ pods that are not stored


def test_a_resized_pod_is_asked_about_before_it_is_stored(counter):
    slot = counter.connect("one.sock")
    counter.see_pod(row("a/web"))
    answer(counter, slot, TWO)
    larger = row("a/web", "resized")

    assert isinstance(counter.count(larger), Pending)
    answer(counter, slot, FOUR)
    assert texts(counter.count(larger).amounts) == {"requests.memory": "1Gi"}
    assert counter.count(row("a/web")).amounts == TWO

    counter.see_pod(larger)
    assert asked(counter, slot) == []
    assert counter.count(larger).amounts == FOUR


def test_few_pods_that_are_not_stored_are_remembered(counter):
    slot = counter.connect("one.sock")
    for number in range(TRIALS_MAX + 1):
        counter.count(row("b/new", str(number)))

    assert len(asked(counter, slot)) == TRIALS_MAX
    question = counter.count(row("b/new", "0"))
    assert isinstance(question, Pending)
    assert asked(counter, slot) == ["new"]


def test_few_bytes_of_pods_that_are_not_stored_are_remembered(counter):
    slot = counter.connect("one.sock")
    random = seeded(1)
    for _ in range(12):
        counter.count(row("b/new", random.randbytes(1 << 20).hex()))

    assert 0 < len(asked(counter, slot)) < 12
    assert counter._trials_bytes == sum(len(body.packed) for body in counter._trials)
    assert counter._trials_bytes <= TRIALS_BYTES_MAX


def test_the_namespace_of_a_pod_that_is_not_stored_may_be_empty(counter):
    slot = counter.connect("one.sock")
    new = row("b/new")
    counter.count(new)
    question, _ = counter.next_question(slot, 0)

    assert counter.namespace_of(question) == (0, ())
    assert counter.answer(slot, question, 0, TWO) == []
    assert counter.count(new).amounts == TWO


# ------------------------------------------------------------------ several sidecars


def test_the_amounts_of_sidecars_add_up():
    counter = counter_of(2)
    web = row("a/web")
    counter.see_pod(web)
    one = counter.connect("one.sock")
    answer(counter, one, TWO)
    assert counter.count(web) == Pending("1 of 2 sidecars are connected")

    two = counter.connect("two.sock")
    assert counter.count(web) == Pending("waiting for the answer of two.sock")

    answer(counter, two, TWO)
    assert counter.count(web) == Counted(FOUR, "answer of one.sock, two.sock")


def test_a_sidecar_too_many_holds_every_pod(counter):
    web = row("a/web")
    counter.see_pod(web)
    slot = counter.connect("one.sock")
    answer(counter, slot, TWO)

    assert counter.connect("two.sock") is None
    counter.excess = 1

    assert counter.count(web) == Pending("2 sidecars answer, but --sidecars is 1")


# ------------------------------------------------------------------ sidecars that go and come back


def test_the_pods_that_a_former_sidecar_counted_wait_and_the_others_do_not(counter):
    mine, other = row("a/mine", "mine"), row("a/other", "other")
    slot = counter.connect("one.sock")
    counter.see_pod(mine)
    counter.see_pod(other)
    answer(counter, slot, TWO)
    answer(counter, slot, None)

    counter.disconnect(slot)

    assert counter.count(mine) == Pending("0 of 1 sidecars are connected")
    assert counter.count(other) is None


def test_a_sidecar_that_restarted_is_asked_about_every_pod(counter):
    web, done = row("a/web"), row("a/done", phase="Failed")
    slot = counter.connect("one.sock")
    counter.see_pod(web)
    counter.see_pod(done)
    answer(counter, slot, TWO)
    counter.disconnect(slot)

    slot = counter.connect("new.sock")

    assert isinstance(counter.count(web), Pending)
    assert asked(counter, slot) == ["web"]


# ------------------------------------------------------------------ failures


def test_a_question_without_a_good_answer_is_retried_with_back_off(counter):
    web = row("a/web")
    counter.see_pod(web)
    slot = counter.connect("one.sock")
    now_ms, pause = 0, RETRY_MS
    for number in range(9):
        question, _ = counter.next_question(slot, now_ms)
        assert counter.fail(slot, question, "garbage", now_ms) == (number == 0)
        assert counter.count(web) == Pending("one.sock: garbage")
        assert counter.next_question(slot, now_ms + pause - 1) is None
        now_ms, pause = now_ms + pause, min(pause * 2, RETRY_MS_MAX)

    assert pause == RETRY_MS_MAX
    assert answer(counter, slot, TWO, now_ms)
    assert counter.count(web).amounts == TWO


def test_the_failure_of_a_pod_that_changed_meanwhile_is_dropped(counter):
    slot = counter.connect("one.sock")
    counter.see_pod(row("a/web"))
    old, _ = counter.next_question(slot, 0)
    counter.see_pod(row("a/web", "2"))

    assert not counter.fail(slot, old, "garbage", 0)
    assert asked(counter, slot, RETRY_MS_MAX) == ["web"]


def test_the_retry_of_a_pod_that_is_gone_is_dropped(counter):
    slot = counter.connect("one.sock")
    counter.see_pod(row("a/web"))
    question, _ = counter.next_question(slot, 0)
    counter.fail(slot, question, "garbage", 0)
    counter.lose_pod(PodKey("a", "web"))

    assert asked(counter, slot, RETRY_MS_MAX) == []


def test_a_sidecar_that_does_not_answer_at_all_is_the_reason_of_every_pod(counter):
    web = row("a/web")
    counter.see_pod(web)
    slot = counter.connect("one.sock")
    slot.problem = "no answer within 10 s"
    assert counter.count(web) == Pending("one.sock: no answer within 10 s")

    answer(counter, slot, None)

    assert slot.problem == ""


def test_native_counting_is_a_choice_and_is_made_only_after_a_failure():
    counter = counter_of(2, falls_back=True)
    assert counter.falls_back
    web = row("a/web")
    counter.see_pod(web)
    assert isinstance(counter.count(web), Pending)
    counter.is_settled = True
    assert counter.count(web) is None
    assert counter.count_left_out() == 1
    counter.see_pod(row("a/other", "other"))
    counter.see_pod(row("a/done", "done", phase="Succeeded"))
    assert counter.left_out() == {"a": "0 of 2 sidecars are connected"}
    counter.excess = 1
    assert counter.left_out() == {}, "then all pods wait"
    counter.excess = 0
    counter.lose_pod(PodKey("a", "other"))

    one = counter.connect("one.sock")
    assert isinstance(counter.count(web), Pending)
    answer(counter, one, TWO)
    assert counter.count(web) == Counted(TWO, "answer of one.sock")

    two = counter.connect("two.sock")
    two.problem = "no answer within 10 s"
    assert isinstance(counter.count(web), Pending), "it failed at another pod"
    question, _ = counter.next_question(two, 0)
    counter.fail(two, question, "garbage", 0)
    assert counter.count(web) == Counted(TWO, "answer of one.sock")
    assert counter.count_left_out() == 1

    assert counter.left_out() == {"a": "two.sock: garbage"}

    assert answer(counter, two, None, RETRY_MS)
    assert (counter.count_left_out(), counter.left_out()) == (0, {})


# ------------------------------------------------------------------ after a change of leader


def running(name: str, content: str = "1", **fields):
    namespace, _, _ = name.partition("/")
    return row(name, content, profile=a_profile(namespace, gates=UNGATED), **fields)


WAITS = Pending("waiting for answers about running pods of the namespace")


def test_gated_pods_wait_until_the_charges_of_running_ones_are_known(counter):
    old, new, other = running("a/old", "old"), row("a/new", "new"), row("b/other", "other")
    slot = counter.connect("one.sock")
    for each in (new, other, old):
        counter.see_pod(each)
    for _ in range(2):
        answer(counter, slot, TWO)
    assert counter.count(new) == WAITS
    assert isinstance(counter.count(other), Counted)
    assert counter.unanswered(slot) == [PodKey("a", "old")]

    assert answer(counter, slot, TWO) == [PodKey("a", "old"), PodKey("a", "new")]
    assert isinstance(counter.count(new), Counted)

    counter.see_pod(running("a/old", "changed"))
    assert isinstance(counter.count(new), Counted), "the charge of the old pod is known"


@pytest.mark.parametrize("ends", [True, False])
def test_gated_pods_wait_no_longer_for_a_running_pod_that_ends(counter, ends):
    new = row("a/new", "new")
    slot = counter.connect("one.sock")
    counter.see_pod(new)
    counter.see_pod(running("a/old", "old"))
    answer(counter, slot, TWO)
    assert counter.count(new) == WAITS

    if ends:
        counted_again = counter.see_pod(running("a/old", "ended", phase="Failed"))
    else:
        counted_again = counter.lose_pod(PodKey("a", "old"))

    assert counted_again == [new]
    assert isinstance(counter.count(new), Counted)


def test_an_answer_about_a_content_that_is_gone_changes_nothing(counter):
    slot = counter.connect("one.sock")
    counter.see_pod(row("a/web"))
    question, _ = counter.next_question(slot, 0)
    counter.see_pod(row("a/web", "2"))

    assert counter.answer(slot, question, 1, TWO) == []


# ------------------------------------------------------------------ answers that age


def test_answers_are_asked_again_after_other_pods_of_the_namespace_changed(counter):
    slot = counter.connect("one.sock")
    for name in ("a/web", "a/db", "b/other"):
        counter.see_pod(row(name, name))
    for _ in range(3):
        answer(counter, slot, TWO)
    counter.start_sweeps(0)
    assert asked(counter, slot) == []

    counter.start_sweeps(0)
    counter.see_pod(row("a/new", "new"))
    answer(counter, slot, TWO)
    counter.start_sweeps(2 * SWEEP_MS)

    found = [counter.next_question(slot, 0) for _ in range(2)]
    assert [(question.row.name, is_sweep) for question, is_sweep in found] == [
        ("web", True),
        ("db", True),
    ]
    assert isinstance(counter.count(row("a/web", "a/web")), Counted)
    assert counter.next_question(slot, 0) is None


def test_a_sweep_ends_before_the_next_begins(counter):
    slot = counter.connect("one.sock")
    for name in ("a/web", "a/db", "a/new"):
        counter.see_pod(row(name, name))
        answer(counter, slot, TWO)

    for _ in range(3):
        counter.start_sweeps(0)

    assert counter.next_question(slot, 0, may_sweep=False) is None
    assert asked(counter, slot) == ["web", "db"]


def test_sweeps_become_rare_while_they_change_nothing(counter):
    slot = counter.connect("one.sock")
    counter.see_pod(row("a/web"))
    counter.see_pod(row("a/0", "0"))
    for _ in range(2):
        answer(counter, slot, TWO)
    sweeps, now_ms = [], 0
    for second in range(3600):
        now_ms = second * 1000
        counter.see_pod(row("a/0", str(second)))
        counter.start_sweeps(now_ms)
        while found := counter.next_question(slot, now_ms):
            question, is_sweep = found
            if is_sweep:
                sweeps.append(now_ms)
            counter.answer(slot, question, counter.namespace_of(question)[0], TWO)
    pauses = [later - earlier for earlier, later in itertools.pairwise(sweeps)]
    assert sorted(pauses) == pauses
    assert max(pauses) <= SWEEP_MS_MAX + 2000

    counter.start_sweeps(now_ms + SWEEP_MS_MAX)
    question, is_sweep = counter.next_question(slot, now_ms)
    assert is_sweep
    assert counter.answer(slot, question, counter.namespace_of(question)[0], FOUR)
    now_ms += SWEEP_MS_MAX
    counter.start_sweeps(now_ms)
    counter.see_pod(row("a/0", "last"))
    answer(counter, slot, TWO, now_ms)
    counter.start_sweeps(now_ms + SWEEP_MS)
    assert asked(counter, slot, now_ms + SWEEP_MS) == ["web"]


def test_a_sidecar_that_sees_only_the_pod_is_never_asked_again():
    counter = counter_of(sees_namespace=False)
    slot = counter.connect("one.sock")
    for name in ("a/web", "a/db"):
        counter.see_pod(row(name, name))
        answer(counter, slot, TWO)

    counter.start_sweeps(SWEEP_MS_MAX)

    assert asked(counter, slot) == []


def test_a_pod_that_leaves_during_a_sweep_is_not_asked_about(counter):
    slot = counter.connect("one.sock")
    for name in ("a/web", "a/db"):
        counter.see_pod(row(name, name))
        answer(counter, slot, TWO)
    counter.start_sweeps(0)
    counter.lose_pod(PodKey("a", "web"))

    assert asked(counter, slot) == []
