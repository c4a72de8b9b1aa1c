"""QoS: upstream's own cases, and a true reason for each verdict."""

import pytest
from hypothesis import given, settings

from bursar.core.model.pod import NO_RESOURCES
from bursar.core.model.qos import QosClass, QosExplanation, explain_qos, qos_class
from support.builders.pods import a_pod, init, main, resources, sidecar
from support.builders.random_objects import as_pod, pods

BOTH = "cpu=100m memory=100Mi"
EVEN = main(BOTH, BOTH)

CLASSES = {
    "equal requests and limits": (a_pod(EVEN), "Guaranteed"),
    "two such containers": (a_pod(EVEN, EVEN), "Guaranteed"),
    "nothing": (a_pod(main()), "BestEffort"),
    "no container at all": (a_pod(), "BestEffort"),
    "nothing beside a burstable one": (a_pod(main(), main("cpu=1", "cpu=2")), "Burstable"),
    "nothing beside a guaranteed one": (a_pod(main(), EVEN), "Burstable"),
    "cpu alone": (a_pod(main("cpu=1", "cpu=1")), "Burstable"),
    "memory alone": (a_pod(main("memory=1Gi", "memory=1Gi")), "Burstable"),
    "requests only": (a_pod(main(BOTH)), "Burstable"),
    "limits only, before defaulting": (a_pod(main("", BOTH)), "Burstable"),
    "a burstable one beside a guaranteed one": (
        a_pod(main("cpu=1 memory=100Mi", "cpu=2 memory=100Mi"), EVEN),
        "Burstable",
    ),
    "requests of zero": (
        a_pod(main("cpu=0 memory=0", "cpu=100m memory=200Mi")),
        "Burstable",
    ),
    "hugepages do not count, nor does zero": (
        a_pod(main("cpu=0 memory=0 hugepages-2Mi=4Mi", "cpu=0 memory=0 hugepages-2Mi=4Mi")),
        "BestEffort",
    ),
    "negative amounts do not count": (a_pod(main("cpu=-1", "memory=-1")), "BestEffort"),
    "an init container counts": (a_pod(main(), init("cpu=1", "cpu=2")), "Burstable"),
    "a sidecar counts": (a_pod(EVEN, sidecar()), "Burstable"),
    "equal in total, though not each": (
        a_pod(
            main("cpu=1 memory=1Gi", "cpu=2 memory=1Gi"),
            main("cpu=2 memory=1Gi", "cpu=1 memory=1Gi"),
        ),
        "Guaranteed",
    ),
    "equal in another spelling": (
        a_pod(main("cpu=0.5 memory=1Gi", "cpu=500m memory=1024Mi")),
        "Guaranteed",
    ),
}


@pytest.mark.parametrize(("pod", "expected"), CLASSES.values(), ids=CLASSES)
def test_class_by_containers(pod, expected):
    assert qos_class(pod) is QosClass(expected)


POD_LEVEL = {
    "equal, over idle containers": (a_pod(main(), resources=resources(BOTH, BOTH)), "Guaranteed"),
    "equal, over burstable containers": (
        a_pod(main("cpu=1", "cpu=2"), resources=resources(BOTH, BOTH)),
        "Guaranteed",
    ),
    "unequal, over guaranteed containers": (
        a_pod(EVEN, resources=resources("cpu=10m memory=10Mi", "cpu=20m memory=50Mi")),
        "Burstable",
    ),
    "requests only": (a_pod(EVEN, resources=resources(BOTH)), "Burstable"),
    "limits only, before defaulting": (a_pod(EVEN, resources=resources("", BOTH)), "Burstable"),
    "one limit": (
        a_pod(main(), resources=resources("cpu=10m memory=10Mi", "cpu=5m")),
        "Burstable",
    ),
    "one resource": (a_pod(main(), resources=resources("cpu=1", "cpu=1")), "Burstable"),
    "nothing that counts": (
        a_pod(EVEN, resources=resources("hugepages-2Mi=4Mi", "cpu=0")),
        "BestEffort",
    ),
    "empty, which hides the containers": (a_pod(EVEN, resources=NO_RESOURCES), "BestEffort"),
}


@pytest.mark.parametrize(("pod", "expected"), POD_LEVEL.values(), ids=POD_LEVEL)
def test_class_by_pod_level_resources(pod, expected):
    assert qos_class(pod) is QosClass(expected)


REASONS = {
    "no container requests or limits cpu or memory": a_pod(main()),
    "every container has equal cpu and memory requests and limits": a_pod(
        EVEN, sidecar(BOTH, BOTH)
    ),
    "the cpu and memory requests of all containers add up to the sum of their limits": a_pod(
        main("cpu=1 memory=1Gi", "cpu=2 memory=1Gi"), main("cpu=2 memory=1Gi", "cpu=1 memory=1Gi")
    ),
    'container "wp" has no cpu limit': a_pod(EVEN, main("cpu=1", name="wp")),
    'container "wp" has no memory limit': a_pod(EVEN, main("cpu=1", "cpu=1", name="wp")),
    'init container "setup" has no cpu limit': a_pod(EVEN, init(name="setup")),
    'sidecar "proxy" has no memory limit': a_pod(EVEN, sidecar("", "cpu=1", name="proxy")),
    'container "c0": cpu limit 0 counts as none': a_pod(main(BOTH, "cpu=0 memory=100Mi")),
    'container "db": memory request 64Mi differs from its limit 128Mi': a_pod(
        EVEN, main("cpu=1 memory=64Mi", "cpu=1 memory=128Mi", name="db")
    ),
    'container "c0" has no cpu request': a_pod(main("", BOTH)),
    'container "c0": cpu request 0 counts as none': a_pod(main("cpu=0", BOTH)),
    # Here cpu is equal in total, so it is not what decides.
    'container "c2": memory request 1Gi differs from its limit 2Gi': a_pod(
        main("cpu=1 memory=1Gi", "cpu=2 memory=1Gi"),
        main("cpu=2 memory=1Gi", "cpu=1 memory=1Gi"),
        main("cpu=1 memory=1Gi", "cpu=1 memory=2Gi"),
    ),
    "the pod's own cpu and memory requests equal its limits": a_pod(
        main(), resources=resources(BOTH, BOTH)
    ),
    "the pod itself has no memory limit": a_pod(EVEN, resources=resources(BOTH, "cpu=1")),
    "the pod itself: cpu request 1 differs from its limit 2": a_pod(
        EVEN, resources=resources("cpu=1 memory=1Gi", "cpu=2 memory=1Gi")
    ),
    "the pod's own resources name no cpu or memory, and its containers do not count then": a_pod(
        EVEN, resources=NO_RESOURCES
    ),
}


@pytest.mark.parametrize(("reason", "pod"), REASONS.items(), ids=REASONS)
def test_the_reason_names_what_decides(reason, pod):
    assert explain_qos(pod) == QosExplanation(qos=qos_class(pod), reason=reason)


@settings(max_examples=100)
@given(pods(hostile=True).map(as_pod))
def test_every_pod_has_a_reason_that_fits_its_class(pod):
    verdict = explain_qos(pod)
    words = {
        QosClass.GUARANTEED: ("equal", "add up"),
        QosClass.BURSTABLE: ("has no", "counts as none", "differs"),
        QosClass.BEST_EFFORT: ("no container", "name no"),
    }

    assert any(word in verdict.reason for word in words[verdict.qos])
