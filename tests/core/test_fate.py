"""Why pods and containers do not run, as sentences."""

import pytest

from bursar.core.explain.fate import Fate, memory_limit, pod_fates
from bursar.core.model.pod import ContainerState, ContainerStatus, Pod
from support.builders.pods import a_pod, init, main, resources, sidecar


def waiting(reason: str, message: str = "") -> ContainerState:
    return ContainerState(kind="waiting", reason=reason, message=message)


def ended(reason: str = "", code: int = 0, message: str = "") -> ContainerState:
    return ContainerState(kind="terminated", reason=reason, exit_code=code, message=message)


RUNNING = ContainerState(kind="running")


def with_status(
    state: ContainerState | None,
    last: ContainerState | None = None,
    *,
    restarts: int = 0,
    ready: bool = False,
    limits: str = "memory=50Mi",
    **fields: object,
) -> Pod:
    status = ContainerStatus(
        name="c0", state=state, last_state=last, restart_count=restarts, ready=ready
    )
    return a_pod(main("", limits), container_statuses=(status,), **fields)


def only(pod: Pod) -> Fate:
    [fate] = pod_fates(pod)
    return fate


def test_a_container_that_used_too_much_memory_names_its_limit_and_restarts():
    """The case of the seed: restarted five times, and running at the moment."""
    fate = only(with_status(RUNNING, ended("OOMKilled", 137), restarts=5))

    assert fate.subject == "container c0"
    assert fate.sentence == (
        "the kernel ended it, because it used more memory than its limit of 50Mi "
        "(OOMKilled, exit code 137; restarted 5 times), and runs again"
    )
    assert "raise the memory limit" in fate.next_step
    assert fate.is_failure


def test_a_container_that_is_ready_again_has_not_failed():
    fate = only(with_status(RUNNING, ended("OOMKilled", 137), restarts=1, ready=True))

    assert not fate.is_failure
    assert "restarted 1 time)" in fate.sentence


def test_without_a_limit_the_node_ran_out_of_memory():
    fate = only(with_status(ended("OOMKilled", 137), limits=""))

    assert "the node had no memory left" in fate.sentence


def test_the_limit_of_the_pod_counts_for_containers_without_one():
    pod = a_pod(main("", "memory=0"), main("", "memory=1Gi"), resources=resources("", "memory=2Gi"))

    assert [str(memory_limit(pod, each)) for each in pod.containers] == ["2Gi", "1Gi"]
    for none in (a_pod(main()), a_pod(main(), resources=resources("", "memory=0"))):
        assert memory_limit(none, none.containers[0]) is None
    assert memory_limit(a_pod(main(), resources=resources()), main().container) is None


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (1, "it failed (Error, exit code 1)"),
        (126, "cannot be executed"),
        (127, "was not found"),
        (134, "signal 6 ended it"),
        (137, "SIGKILL ended it"),
        (139, "SIGSEGV"),
        (143, "SIGTERM ended it"),
        (255, "it failed (Error, exit code 255)"),
    ],
)
def test_an_exit_code_is_explained(code: int, words: str):
    assert words in only(with_status(ended("Error", code))).sentence


def test_a_container_that_was_lost_says_so():
    lost = only(with_status(ended("ContainerStatusUnknown", 137, "could not be located")))

    assert lost.sentence.startswith("it was lost when the pod ended")
    assert lost.sentence.endswith(": could not be located")
    assert only(with_status(ended("", 3))).sentence == "it failed (exit code 3)"


@pytest.mark.parametrize(
    ("reason", "words", "fails"),
    [
        ("ImagePullBackOff", "cannot be pulled, and is tried again", True),
        ("ErrImagePull", "cannot be pulled", True),
        ("InvalidImageName", "no valid name", True),
        ("ErrImageNeverPull", "imagePullPolicy Never", True),
        ("CreateContainerConfigError", "ConfigMap, Secret or key", True),
        ("CreateContainerError", "could not create it", True),
        ("RunContainerError", "could not start it", True),
        ("CrashLoopBackOff", "again and again", True),
        ("SomethingNew", "it cannot start (SomethingNew)", True),
        ("ContainerCreating", "is being created", False),
        ("PodInitializing", "waits for the init containers", False),
    ],
)
def test_a_container_that_waits_says_for_what(reason: str, words: str, *, fails: bool):
    fate = only(with_status(waiting(reason)))

    assert (words in fate.sentence, fate.is_failure) == (True, fails)


def test_a_crash_loop_is_explained_by_how_the_container_ended():
    fate = only(with_status(waiting("CrashLoopBackOff"), ended("OOMKilled", 137), restarts=3))

    assert "more memory than its limit of 50Mi" in fate.sentence
    loops = only(with_status(waiting("CrashLoopBackOff"), RUNNING))
    assert loops.sentence == "it ended again and again (CrashLoopBackOff)"


def test_what_works_has_no_fate():
    for state, last in (
        (RUNNING, None),
        (RUNNING, ended("Completed")),
        (RUNNING, RUNNING),
        (ended("Completed"), None),
        (waiting(""), None),
        (None, None),
    ):
        assert pod_fates(with_status(state, last)) == ()


def test_init_containers_fail_too_and_unknown_ones_are_not_forgotten():
    statuses = tuple(
        ContainerStatus(name=name, state=state, last_state=last)
        for name, state, last in (
            ("i0", ended("Error", 1), None),
            ("i1", RUNNING, ended("Error", 1)),
            ("i2", RUNNING, ended("Error", 1)),
            ("gone", ended("OOMKilled", 0), None),
        )
    )
    pod = a_pod(init(), init(), sidecar(), main(), init_container_statuses=statuses)

    assert [fate.subject for fate in pod_fates(pod)] == [
        *("container i0", "container i2", "container gone")
    ]


def test_an_evicted_pod_gives_the_message_of_the_kubelet():
    pod = a_pod(main(), phase="Failed", reason="Evicted", message="Usage of\n EmptyDir exceeds 1Gi")
    fate = only(pod)

    assert fate.subject == "pod"
    assert fate.sentence.endswith("(Evicted): Usage of EmptyDir exceeds 1Gi")


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("OutOfcpu", "the node had too little cpu left"),
        ("OutOfexample.com/foo", "too little example.com/foo left"),
        ("DeadlineExceeded", "activeDeadlineSeconds"),
        ("Mystery", "the pod failed (Mystery)"),
    ],
)
def test_the_reason_of_a_pod_is_explained(reason: str, words: str):
    assert words in only(a_pod(main(), reason=reason)).sentence


def test_a_long_message_is_cut():
    fate = only(with_status(ended("Error", 1, "x" * 5000)))

    assert len(fate.sentence) < 400
    assert fate.sentence.endswith("x...")
