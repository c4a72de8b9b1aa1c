"""Validation of in-place resizes: what may change, and the texts of what may not."""

from dataclasses import replace

import pytest

from bursar.core.model.pod import (
    ClaimReference,
    Container,
    ContainerState,
    ContainerStatus,
    ResourceRequirements,
)
from bursar.core.model.validation.resize import validate_resize
from support.builders.pods import a_pod, init, main, resources

MIRROR = {"kubernetes.io/config.mirror": "x"}
EMPTY = ResourceRequirements()


def said(old, new):
    return [str(problem) for problem in validate_resize(old, new)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ([main("cpu=1")], [main("cpu=2")]),
        ([main("cpu=1")], [main("cpu=1 memory=1Gi", "cpu=4")]),
        ([main("cpu=1"), init("cpu=1")], [main("cpu=1"), init("cpu=2")]),
        ([main("cpu=1 ephemeral-storage=1Gi")], [main("cpu=2 ephemeral-storage=1024Mi")]),
    ],
)
def test_cpu_and_memory_may_change_and_appear(old, new):
    assert said(a_pod(*old), a_pod(*new)) == []


@pytest.mark.parametrize(
    ("old", "new", "texts"),
    [
        (
            [main("cpu=1 memory=1Gi", "cpu=2")],
            [main("cpu=1")],
            [
                (
                    "spec.containers[0].resources.requests: Forbidden:"
                    " resource requests cannot be removed"
                ),
                "spec.containers[0].resources.limits: Forbidden: resource limits cannot be removed",
            ],
        ),
        (
            [main("cpu=1"), init("cpu=1", "cpu=1")],
            [main("cpu=1"), init("cpu=1", "")],
            [
                (
                    "spec.initContainers[0].resources.limits: Forbidden:"
                    " resource limits cannot be removed"
                )
            ],
        ),
        (
            [main("cpu=1 ephemeral-storage=1Gi")],
            [main("cpu=1 ephemeral-storage=2Gi")],
            ["spec: Forbidden: only cpu and memory resources are mutable"],
        ),
        (
            [main("cpu=1"), init("cpu=1")],
            [main("cpu=1"), init("cpu=1 ephemeral-storage=2Gi")],
            [
                (
                    "spec.initContainers[0]: Forbidden:"
                    " only cpu and memory resources for init or sidecar containers are mutable"
                )
            ],
        ),
        (
            [main("cpu=1")],
            [main("cpu=1"), main("cpu=1"), init("cpu=1")],
            [
                "spec.containers: Forbidden: containers may not be added or removed on resize",
                (
                    "spec.initContainers: Forbidden:"
                    " initContainers may not be added or removed on resize"
                ),
            ],
        ),
        (
            [main("cpu=1"), init("cpu=1"), init("cpu=1")],
            [main("cpu=1"), init("cpu=1")],
            [
                (
                    "spec.initContainers: Forbidden:"
                    " initContainers may not be added or removed on resize"
                )
            ],
        ),
        (
            [main("cpu=1"), init("cpu=1")],
            [main("cpu=2", name="other"), init("cpu=1", name="another")],
            [
                (
                    "spec.containers[0].name: Forbidden:"
                    " containers may not be renamed or reordered on resize"
                ),
                (
                    "spec.initContainers[0].name: Forbidden:"
                    " initContainers may not be renamed or reordered on resize"
                ),
            ],
        ),
        (
            [main("cpu=1", "cpu=2")],
            [main("cpu=3", "cpu=2")],
            [
                (
                    'spec.containers[0].resources.requests: Invalid value: "3":'
                    " must be less than or equal to cpu limit of 2"
                )
            ],
        ),
    ],
)
def test_changes_that_are_refused(old, new, texts):
    assert said(a_pod(*old), a_pod(*new)) == texts


def test_qos_class_may_not_change():
    guaranteed = a_pod(main("cpu=1 memory=1Gi", "cpu=1 memory=1Gi"), reported_qos="Guaranteed")
    burstable = a_pod(main("cpu=1 memory=1Gi", "cpu=2 memory=1Gi"))

    assert said(guaranteed, burstable) == [
        'spec: Invalid value: "Guaranteed": Pod QOS Class may not change as a result of resizing'
    ]
    assert said(replace(burstable, reported_qos="Burstable"), burstable) == []


def test_class_not_yet_stored_is_computed_and_printed_empty():
    assert said(a_pod(main()), a_pod(main("cpu=1"))) == [
        'spec: Invalid value: "": Pod QOS Class may not change as a result of resizing'
    ]


@pytest.mark.parametrize(
    ("states", "supported"),
    [
        ([], True),
        ([("waiting", None)], True),
        ([("running", resources("cpu=1"))], True),
        ([("waiting", resources("cpu=1")), ("running", None)], False),
        ([(None, None), ("running", resources("cpu=1")), ("running", None)], True),
    ],
)
def test_node_shows_its_support_by_reporting_resources(states, supported):
    pod = a_pod(
        main("cpu=1"),
        container_statuses=tuple(
            ContainerStatus(
                name=f"c{index}",
                state=None if kind is None else ContainerState(kind=kind),
                resources=reported,
            )
            for index, (kind, reported) in enumerate(states)
        ),
    )
    refusal = ["spec: Forbidden: Pod running on node without support for resize"]

    assert said(pod, pod) == ([] if supported else refusal)


def test_static_and_windows_pods_cannot_be_resized():
    invalid = a_pod(main("cpu=-1"))

    assert said(a_pod(main(), annotations=MIRROR), invalid) == [
        "[]: Forbidden: static pods cannot be resized"
    ]
    assert said(a_pod(main(), os_name="windows"), invalid) == [
        "[]: Forbidden: windows pods cannot be resized"
    ]


@pytest.mark.parametrize(
    ("old", "new", "texts"),
    [
        (resources("cpu=1"), resources("cpu=2"), []),
        (EMPTY, resources("cpu=2"), []),
        (EMPTY, EMPTY, []),
        (
            resources("cpu=1"),
            None,
            ["spec.resources: Forbidden: pod-level resources cannot be removed"],
        ),
        (
            resources("cpu=1 memory=1Gi", "cpu=1"),
            resources("cpu=1"),
            [
                "spec.resources.requests: Forbidden: pod-level resource requests cannot be removed",
                "spec.resources.limits: Forbidden: pod-level resource limits cannot be removed",
            ],
        ),
        (
            resources("cpu=1 hugepages-2Mi=2Mi", "hugepages-2Mi=2Mi"),
            resources("cpu=1 hugepages-2Mi=4Mi", "hugepages-2Mi=4Mi"),
            ["spec: Forbidden: only cpu and memory resources are mutable at pod-level"],
        ),
        (None, EMPTY, ["spec: Forbidden: only cpu and memory resources are mutable"]),
        (EMPTY, None, ["spec: Forbidden: only cpu and memory resources are mutable"]),
    ],
)
def test_pod_level_resources(old, new, texts):
    burstable = "Burstable" if new and new.requests else "BestEffort"
    pod = a_pod(main(), reported_qos=burstable)
    problems = said(replace(pod, resources=old), replace(pod, resources=new))

    assert [text for text in problems if "QOS" not in text] == texts


def test_pod_level_resources_may_appear():
    old = a_pod(main("cpu=1"))

    assert said(old, replace(old, resources=resources("cpu=1"))) == []


def test_pod_level_claims_are_fixed():
    old = a_pod(main(), resources=resources("cpu=1"), claim_names=("gpu",))
    stated = replace(resources("cpu=1"), claims=(ClaimReference(name="gpu"),))

    assert said(old, replace(old, resources=stated)) == [
        "spec.resources.claims: Forbidden: claims may not be set for Resources at pod-level",
        "spec: Forbidden: only cpu and memory resources are mutable at pod-level",
    ]


def test_container_with_claims_cannot_be_resized_but_may_acquire_them():
    plain = a_pod(main("cpu=1"), claim_names=("gpu",))
    claims = replace(resources("cpu=1"), claims=(ClaimReference(name="gpu"),))
    claiming = replace(plain, containers=(Container(name="c0", resources=claims),))

    assert said(claiming, claiming) == [
        "spec: Forbidden: only cpu and memory resources are mutable"
    ]
    assert said(plain, claiming) == []


def test_changes_elsewhere_are_ignored():
    old = a_pod(main("cpu=1"), overhead="cpu=1")
    container = Container(name="c0", image="other", resources=resources("cpu=2"))
    new = replace(old, containers=(container,), overhead={}, scheduling_gates=("-",))

    assert said(old, new) == []


@pytest.mark.parametrize("broken", ["container", "overhead"])
def test_broken_pages_pass_if_the_old_pod_had_them(broken):
    pages = "cpu=1 hugepages-2Mi=3Mi"
    old = a_pod(
        main(pages, pages) if broken == "container" else main("cpu=1"),
        overhead=pages if broken == "overhead" else "",
    )

    assert said(old, old) == []


def test_resize_cannot_break_pages():
    whole = "cpu=1 hugepages-2Mi=2Mi"
    pages = "cpu=1 hugepages-2Mi=3Mi"

    assert (
        'spec.containers[0].resources.limits[hugepages-2Mi]: Invalid value: "3Mi":'
        " 3Mi is not positive integer multiple of hugepages-2Mi"
    ) in said(a_pod(main(whole, whole)), a_pod(main(pages, pages)))
