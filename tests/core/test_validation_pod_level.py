"""Validation of the resources a pod states for itself."""

from dataclasses import replace

import pytest

from bursar.core.model.pod import ClaimReference
from bursar.core.model.validation.pod import validate_pod
from support.builders.pods import a_pod, init, main, resources, sidecar


def said(pod):
    return [str(problem) for problem in validate_pod(pod)]


@pytest.mark.parametrize(
    ("stated", "slots", "texts"),
    [
        (resources(), [main("cpu=1")], []),
        (resources("cpu=2", "cpu=3"), [main("cpu=1", "cpu=3"), main("cpu=1", "cpu=3")], []),
        (
            resources("cpu=1"),
            [main("cpu=1"), sidecar("cpu=500m")],
            [
                (
                    'spec.resources.requests[cpu]: Invalid value: "1":'
                    " must be greater than or equal to aggregate container requests of 1500m"
                )
            ],
        ),
        (
            resources("cpu=3 hugepages-2Mi=2Mi", "hugepages-2Mi=2Mi"),
            [
                main("cpu=1 hugepages-2Mi=2Mi", "hugepages-2Mi=2Mi"),
                main("cpu=1 hugepages-2Mi=2Mi", "hugepages-2Mi=2Mi"),
            ],
            [
                (
                    'spec.resources.requests[hugepages-2Mi]: Invalid value: "2Mi":'
                    " must be greater than or equal to aggregate container requests of 4Mi"
                ),
                (
                    'spec.resources.limits[hugepages-2Mi]: Invalid value: "2Mi":'
                    " must be greater than or equal to aggregate container limits of 4Mi"
                ),
            ],
        ),
        (
            resources("cpu=1", "cpu=2"),
            [main("cpu=500m", "cpu=1"), main("cpu=500m", "cpu=3"), init("", "cpu=9")],
            [
                (
                    'spec.resources.containers[1][cpu].limits: Invalid value: "3":'
                    " must be less than or equal to pod limits of 2"
                )
            ],
        ),
        (
            resources("cpu=2", "cpu=1"),
            [main()],
            [
                (
                    'spec.resources.requests: Invalid value: "2":'
                    " must be less than or equal to cpu limit of 1"
                )
            ],
        ),
        (
            resources("gpu=1"),
            [main()],
            [
                (
                    'spec.resources.requests[gpu]: Invalid value: "gpu":'
                    " must be a standard resource type or fully qualified"
                )
            ],
        ),
        (
            resources("", "hugepages-2Mi=2Mi"),
            [main()],
            ["spec.resources: Forbidden: HugePages require cpu or memory"],
        ),
    ],
)
def test_pod_level_resources_against_containers(stated, slots, texts):
    assert said(a_pod(*slots, resources=stated)) == texts


def test_windows_pod_has_no_resources_of_its_own():
    pod = a_pod(main(), resources=resources("gpu=-1"), os_name="windows")

    assert said(pod) == ["spec.resources: Forbidden: may not be set for a windows pod"]
    assert said(replace(pod, resources=None)) == []


def test_claims_belong_to_containers():
    stated = replace(resources("cpu=1"), claims=(ClaimReference(name="gpu"),))
    pod = a_pod(main(), resources=stated, claim_names=("gpu",))

    assert said(pod) == [
        "spec.resources.claims: Forbidden: claims may not be set for Resources at pod-level"
    ]
