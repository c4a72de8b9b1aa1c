"""Admission of pods: LimitRange defaults and bounds, RuntimeClass, PriorityClass."""

from dataclasses import replace

import pytest

from bursar.core.model.admission.admit import Policies, admit, policies_of
from bursar.core.model.admission.classes import PriorityClass, RuntimeClass
from bursar.core.model.admission.limit_range import LimitRange, LimitRangeItem, limit_errors
from bursar.core.model.pod import Container, Pod, ResourceRequirements, Toleration
from support.builders.pods import a_pod, main, parsed


def one_container(requests: str = "", limits: str = "", **fields) -> Pod:
    return a_pod(main(requests, limits, name="app"), **fields)


def limits(type: str = "Container", **amounts: str) -> LimitRange:
    bounds = {side: parsed(text) for side, text in amounts.items()}
    item = LimitRangeItem(type=type, **bounds)
    return LimitRange(namespace="default", name="small", items=(item,))


def admitted(pod: Pod, *policies):
    return admit(
        pod,
        policies_of(
            [each for each in policies if isinstance(each, LimitRange)],
            [each for each in policies if isinstance(each, RuntimeClass)],
            [each for each in policies if isinstance(each, PriorityClass)],
        ),
    )


def test_unknown_limit_ranges_are_named():
    assert admit(one_container(), Policies()).unknown == (
        "LimitRanges of namespace default: not in the input",
    )
    assert admitted(one_container(), limits()).unknown == ()


def test_defaults_fill_in_what_containers_leave_out():
    init = Container(name="init")
    pod = replace(one_container(requests="cpu=1"), init_containers=(init,))

    found = admitted(
        pod,
        limits(default="cpu=2", max="memory=1Gi", min="cpu=100m"),
        limits(type="Pod", max="cpu=9"),
    )

    app, first = found.pod.containers[0].resources, found.pod.init_containers[0].resources
    assert (app.requests, app.limits) == (
        parsed("cpu=1 memory=1Gi"),
        parsed("cpu=2 memory=1Gi"),
    )
    assert (first.requests, first.limits) == (parsed("cpu=2 memory=1Gi"),) * 2
    assert found.changes == (
        (
            "LimitRange small: memory request for container app; "
            "cpu, memory limit for container app; cpu, memory request for init container "
            "init; cpu, memory limit for init container init"
        ),
    )
    assert found.refusals == ()


def test_a_second_limit_range_finds_nothing_left_to_set():
    first = limits(default="cpu=1")

    assert len(admitted(one_container(), first, first).changes) == 1


@pytest.mark.parametrize(
    ("bound", "pod", "text"),
    [
        (
            {"min": "cpu=1"},
            one_container(),
            "minimum cpu usage per Container is 1.  No request is specified",
        ),
        (
            {"min": "cpu=1"},
            one_container("cpu=500m"),
            "minimum cpu usage per Container is 1, but request is 500m",
        ),
        (
            {"min": "cpu=1"},
            one_container("cpu=1", "cpu=500m"),
            "minimum cpu usage per Container is 1, but limit is 500m",
        ),
        (
            {"max": "cpu=1"},
            one_container(),
            "maximum cpu usage per Container is 1.  No limit is specified",
        ),
        (
            {"max": "cpu=1"},
            one_container(limits="cpu=2"),
            "maximum cpu usage per Container is 1, but limit is 2",
        ),
        (
            {"max": "cpu=1"},
            one_container("cpu=2", "cpu=1"),
            "maximum cpu usage per Container is 1, but request is 2",
        ),
        (
            {"max_ratio": "cpu=2"},
            one_container(limits="cpu=2"),
            (
                "cpu max limit to request ratio per Container is 2, but no request is specified or "
                "request is 0"
            ),
        ),
        (
            {"max_ratio": "cpu=2"},
            one_container("cpu=2"),
            (
                "cpu max limit to request ratio per Container is 2, but no limit is specified or "
                "limit is 0"
            ),
        ),
        (
            {"max_ratio": "cpu=2"},
            one_container("cpu=3", "cpu=10"),
            "cpu max limit to request ratio per Container is 2, but provided ratio is 3.333333",
        ),
        (
            {"max_ratio": "memory=9223372036854775807"},
            one_container("memory=1", "memory=9223372036854775807"),
            None,
        ),
        ({"max_ratio": "cpu=2"}, one_container("cpu=1", "cpu=2"), None),
        ({"min": "cpu=1"}, one_container("cpu=1", "cpu=2"), None),
        ({"max": "cpu=2"}, one_container("cpu=1", "cpu=2"), None),
        ({"type": "PersistentVolumeClaim", "min": "storage=1"}, one_container(), None),
    ],
)
def test_bounds_are_worded_as_by_the_server(bound, pod, text):
    assert limit_errors(pod, limits(**bound)) == (() if text is None else (text,))


def test_bounds_of_pods_read_cpu_and_memory_at_pod_level():
    stated = ResourceRequirements(requests=parsed("cpu=3"), limits=parsed("memory=1Gi"))
    pod = one_container("cpu=1", resources=stated)

    assert limit_errors(pod, limits(type="Pod", min="cpu=3")) == ()
    assert limit_errors(pod, limits(type="Pod", max="memory=512Mi")) == (
        "maximum memory usage per Pod is 512Mi, but limit is 1Gi",
    )
    assert limit_errors(one_container(), limits(type="Pod", min="cpu=3"))


def test_equal_errors_are_listed_once_and_several_in_brackets():
    pod = one_container()
    pod = replace(pod, containers=pod.containers * 2)

    (text,) = admitted(pod, limits(min="cpu=1", default_request="cpu=0")).refusals
    assert text.count("minimum cpu usage") == 1
    (text,) = admitted(
        pod,
        limits(type="Pod", min="cpu=1 memory=1"),
    ).refusals
    assert text.startswith('pods "web" is forbidden: [minimum cpu usage')


# ------------------------------------------------------------------ RuntimeClass


def test_a_runtime_class_sets_overhead_selector_and_tolerations():
    sandbox = RuntimeClass(
        name="sandbox",
        overhead=parsed("memory=32Mi"),
        node_selector={"sandbox": "yes"},
        tolerations=(Toleration(key="sandbox"),),
    )

    found = admitted(one_container(runtime_class="sandbox"), limits(), sandbox)

    assert found.pod.overhead == parsed("memory=32Mi")
    assert found.pod.node_selector == {"sandbox": "yes"}
    assert found.pod.tolerations == (Toleration(key="sandbox"),)
    assert found.changes == (
        "RuntimeClass sandbox: overhead memory 32Mi",
        "RuntimeClass sandbox: node selector sandbox=yes",
        "RuntimeClass sandbox: 1 tolerations",
    )
    assert admitted(found.pod, limits(), sandbox).refusals == ()


def test_an_unknown_runtime_class_is_named():
    found = admitted(one_container(runtime_class="x"), limits(), RuntimeClass(name="y"))

    assert found.unknown == ("RuntimeClass x: not in the input",)


@pytest.mark.parametrize(
    ("runtime_class", "fields", "text"),
    [
        ("", {"overhead": "cpu=1"}, "pod rejected: Pod Overhead set without"),
        ("plain", {"overhead": "cpu=1"}, "pod rejected: Pod Overhead set without"),
        ("fat", {"overhead": "cpu=1"}, "pod rejected: Pod's Overhead doesn't match"),
        ("fat", {"node_selector": {"a": "c"}}, "conflict: runtimeClass.scheduling.nodeSelector[a]"),
        ("none", {}, None),
        ("plain", {}, None),
    ],
)
def test_a_runtime_class_refuses_what_contradicts_it(runtime_class, fields, text):
    classes = (
        RuntimeClass(name="plain"),
        RuntimeClass(name="none", overhead={}),
        RuntimeClass(name="fat", overhead=parsed("cpu=2"), node_selector={"a": "b"}),
    )

    found = admitted(one_container(runtime_class=runtime_class, **fields), limits(), *classes)

    if text is None:
        assert found.refusals == ()
    else:
        assert found.refusals[0].startswith(f'pods "web" is forbidden: {text}')


# ------------------------------------------------------------------ PriorityClass


def test_a_priority_class_sets_the_priority():
    found = admitted(
        one_container(priority_class="high"), limits(), PriorityClass(name="high", value=7)
    )

    assert (found.pod.priority, found.changes) == (7, ("PriorityClass high: priority 7",))


def test_the_default_with_the_lowest_value_counts():
    defaults = [PriorityClass(name=f"p{n}", value=n, is_default=True) for n in (5, 3)]

    assert admitted(one_container(), limits(), *defaults).pod.priority_class == "p3"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"priority": 1}, "the integer value of priority (1) must not be provided in pod spec"),
        ({"preemption_policy": "Never"}, "the string value of PreemptionPolicy (Never) must not"),
    ],
)
def test_a_pod_cannot_contradict_its_priority_class(fields, text):
    found = admitted(
        one_container(priority_class="high", **fields),
        limits(),
        PriorityClass(name="high", value=7),
    )

    assert text in found.refusals[0]


def test_an_unknown_priority_class_is_named():
    unknown = ("PriorityClass high: not in the input",)
    assert admitted(one_container(priority_class="high"), limits()).unknown == unknown
    assert admitted(one_container(priority=5), limits()).unknown == (
        "the default PriorityClass: not in the input",
    )
    assert admitted(one_container(priority_class="system-node-critical"), limits()).unknown == ()
