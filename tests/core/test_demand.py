"""Pod demand: upstream's own cases as tables, and properties held against a naive count."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bursar.core.model.demand import (
    ASSIGNED,
    DESCRIBE_ROW,
    DESCRIBE_TOTAL,
    INCOMING,
    KUBELET,
    QUOTA,
    DemandOptions,
    Side,
    container_limits_seen,
    pod_limits,
    pod_requests,
)
from bursar.core.model.names import is_pod_level
from bursar.core.model.pod import Pod
from bursar.core.model.quantity import Format, Quantity
from support.builders.pods import (
    a_pod,
    init,
    listed,
    main,
    parsed,
    resources,
    sidecar,
    texts,
)
from support.builders.random_objects import as_pod, pods

SUMS = {
    "a container without requests asks for nothing, whatever its limits": (
        a_pod(main("", "cpu=9"), init("", "cpu=9")),
        ("", "cpu=9"),
    ),
    "overhead alone is a request but never a limit": (
        a_pod(main(), overhead="cpu=5 memory=5"),
        ("cpu=5 memory=5", ""),
    ),
    "overhead comes on top of requests": (
        a_pod(main("cpu=1 memory=10"), init("cpu=1 memory=10"), overhead="cpu=5 memory=5"),
        ("cpu=6 memory=15", ""),
    ),
    "overhead comes on top of limits": (
        a_pod(
            main("cpu=1 memory=10", "cpu=2 memory=12"),
            init("cpu=1 memory=10", "cpu=2 memory=12"),
            overhead="cpu=5 memory=5",
        ),
        ("cpu=6 memory=15", "cpu=7 memory=17"),
    ),
    "overhead makes no limit where there is none": (
        a_pod(
            main("cpu=1 memory=10", "cpu=2"),
            init("cpu=1 memory=10", "cpu=2"),
            overhead="cpu=5 memory=5",
        ),
        ("cpu=6 memory=15", "cpu=7"),
    ),
    "overhead does not raise a limit of zero": (
        a_pod(main("", "cpu=0 memory=1"), overhead="cpu=5 memory=5"),
        ("cpu=5 memory=5", "cpu=0 memory=6"),
    ),
    "the init container is larger": (
        a_pod(init("cpu=4", "cpu=4"), main("cpu=1", "cpu=1")),
        ("cpu=4", "cpu=4"),
    ),
    "the containers together are larger": (
        a_pod(init("cpu=2", "cpu=2"), main("cpu=2", "cpu=2"), main("cpu=3", "cpu=3")),
        ("cpu=5", "cpu=5"),
    ),
    "overhead of a resource nobody limits": (
        a_pod(
            init("cpu=2", "cpu=2"),
            main("cpu=2", "cpu=2"),
            main("cpu=3", "cpu=3"),
            overhead="cpu=1 memory=1Gi",
        ),
        ("cpu=6 memory=1Gi", "cpu=6"),
    ),
    "a limited container beside an unlimited one": (
        a_pod(main("", "cpu=2 memory=2Gi"), main()),
        ("", "cpu=2 memory=2Gi"),
    ),
    "a limited init container beside an unlimited one": (
        a_pod(init("", "cpu=2 memory=2Gi"), init(), main("", "cpu=1 memory=1Gi")),
        ("", "cpu=2 memory=2Gi"),
    ),
    "the two containers of the Kubernetes documentation": (
        a_pod(
            main("cpu=250m memory=64Mi", "cpu=500m memory=128Mi"),
            main("cpu=250m memory=64Mi", "cpu=500m memory=128Mi"),
        ),
        ("cpu=500m memory=128Mi", "cpu=1 memory=256Mi"),
    ),
    "its example of local storage": (
        a_pod(
            main("ephemeral-storage=2Gi", "ephemeral-storage=4Gi"),
            main("ephemeral-storage=2Gi", "ephemeral-storage=4Gi"),
        ),
        ("ephemeral-storage=4Gi", "ephemeral-storage=8Gi"),
    ),
    "extended resources": (
        a_pod(main("example.com/foo=1"), main("example.com/foo=2"), init("example.com/foo=2")),
        ("example.com/foo=3", ""),
    ),
    "each resource by its own rule": (
        a_pod(main("cpu=3 memory=1Gi"), init("cpu=1 memory=2Gi")),
        ("cpu=3 memory=2Gi", ""),
    ),
    "nothing at all": (a_pod(), ("", "")),
}


@pytest.mark.parametrize(("pod", "expected"), SUMS.values(), ids=SUMS)
def test_containers_init_containers_and_overhead(pod, expected):
    requests, limits = expected

    assert texts(pod_requests(pod)) == listed(requests)
    assert texts(pod_limits(pod)) == listed(limits)


def sized(*slots: tuple[str, int]) -> Pod:
    kinds = {"C": main, "I": init, "S": sidecar}
    return a_pod(*(kinds[kind](f"cpu={n}", f"cpu={n}") for kind, n in slots))


SIDECARS = [
    ("S1 C1", "2"),
    ("I5 S1 S2 S3 C1", "7"),
    ("I5 S1 S2 I5 S3 C1", "8"),
    ("S10 I200 C100", "210"),
    ("S8 I6 C9", "17"),
    ("I4 C1", "4"),
    ("S1 I2", "3"),
]


@pytest.mark.parametrize(("slots", "expected"), SIDECARS)
def test_sidecars_add_to_the_sum_and_to_every_later_init_container(slots, expected):
    pod = sized(*((slot[0], int(slot[1:])) for slot in slots.split()))

    assert texts(pod_requests(pod)) == {"cpu": expected}
    assert texts(pod_limits(pod)) == {"cpu": expected}


DOUBLE = (main("cpu=1 memory=5", "cpu=2 memory=10"), main("cpu=4 memory=12", "cpu=8 memory=24"))
STARTING = (
    init("cpu=1 memory=5", "cpu=1 memory=5"),
    init("cpu=40 memory=120", "cpu=80 memory=240"),
)


@pytest.mark.parametrize(
    ("slots", "requests", "limits"),
    [
        (DOUBLE, "cpu=5 memory=17", "cpu=10 memory=34"),
        (DOUBLE + STARTING, "cpu=40 memory=120", "cpu=80 memory=240"),
    ],
)
def test_overhead_can_be_left_out(slots, requests, limits):
    pod = a_pod(*slots, overhead="cpu=3 memory=8")
    options = DemandOptions(exclude_overhead=True)

    assert texts(pod_requests(pod, options)) == listed(requests)
    assert texts(pod_limits(pod, options)) == listed(limits)


MIX = (main("cpu=2m memory=3Mi"), sidecar("cpu=4m memory=5Mi"), init("cpu=8m memory=6Mi"))
POD_LEVEL = {
    "alone": (a_pod(main(), resources=resources("memory=2Mi")), "memory=2Mi"),
    "beside another resource": (
        a_pod(main("cpu=2m"), resources=resources("memory=2Mi")),
        "memory=2Mi cpu=2m",
    ),
    "not for storage": (
        a_pod(main("storage=3Mi"), resources=resources("storage=2Mi")),
        "storage=3Mi",
    ),
    "greater than its containers": (
        a_pod(main("cpu=2m memory=3Mi"), resources=resources("cpu=8m memory=6Mi")),
        "cpu=8m memory=6Mi",
    ),
    "smaller than its containers": (
        a_pod(main("cpu=2"), resources=resources("cpu=1")),
        "cpu=1",
    ),
    "in place of sidecars and init containers": (
        a_pod(*MIX, resources=resources("cpu=18m memory=15Mi")),
        "cpu=18m memory=15Mi",
    ),
    "absent": (a_pod(*MIX), "cpu=12m memory=11Mi"),
    "of hugepages": (
        a_pod(
            main("memory=4Mi hugepages-1Gi=1Gi"),
            resources=resources("cpu=1 hugepages-2Mi=10Mi"),
        ),
        "cpu=1 memory=4Mi hugepages-2Mi=10Mi hugepages-1Gi=1Gi",
    ),
    "with overhead on top": (
        a_pod(main("cpu=1"), resources=resources("cpu=2"), overhead="cpu=250m"),
        "cpu=2250m",
    ),
}


@pytest.mark.parametrize(("pod", "requests"), POD_LEVEL.values(), ids=POD_LEVEL)
def test_pod_level_requests_replace_those_of_the_containers(pod, requests):
    assert texts(pod_requests(pod)) == listed(requests)


def test_pod_level_limits_replace_those_of_the_containers_even_beside_foreign_ones():
    pod = a_pod(
        main("", "cpu=1 memory=1Gi example.com/foo=1"),
        resources=resources("", "cpu=3 example.com/foo=9"),
        overhead="cpu=1",
    )

    assert texts(pod_limits(pod)) == listed("cpu=4 memory=1Gi example.com/foo=1")


def test_pod_level_resources_can_be_skipped():
    pod = a_pod(main("", "cpu=1"), resources=resources("memory=2Mi", "cpu=2"))
    options = DemandOptions(skip_pod_level=True)

    assert pod_requests(pod, options) == {}
    assert texts(pod_limits(pod, options)) == {"cpu": "1"}


def test_missing_requests_are_assumed_per_container_and_explicit_zeros_kept():
    options = DemandOptions(non_missing=parsed("cpu=100m memory=200Mi"))
    pod = a_pod(main(), main("cpu=0 memory=1Gi"), main("cpu=1"), init("cpu=5"))

    assert texts(pod_requests(pod, options)) == listed("cpu=5 memory=1424Mi")
    assert pod_limits(pod, options) == {}


def test_assumed_requests_lose_the_text_they_were_typed_in():
    options = DemandOptions(non_missing=parsed("cpu=1.500"))

    assert texts(pod_requests(a_pod(main()), options)) == {"cpu": "1500m"}
    assert texts(pod_requests(a_pod(main("cpu=1.500")))) == {"cpu": "1.500"}


# ------------------------------------------------------------------ text and format


def test_a_sum_is_printed_in_the_format_of_its_first_part_that_is_not_zero():
    decimal_first = a_pod(main("memory=100M"), main("memory=1Mi"))
    binary_first = a_pod(main("memory=1Mi"), main("memory=100M"))
    zero_first = a_pod(main("memory=0"), main("memory=1Mi"))

    assert texts(pod_requests(decimal_first)) == {"memory": "101048576"}
    assert pod_requests(binary_first)["memory"].format is Format.BINARY_SI
    assert texts(pod_requests(zero_first)) == {"memory": "1Mi"}


def test_an_amount_taken_over_whole_keeps_its_text_and_equal_ones_the_first():
    pod = a_pod(main("cpu=1.500 memory=1Ki"), init("cpu=1500m memory=1024"), init("memory=1.500"))

    assert texts(pod_requests(pod)) == listed("cpu=1.500 memory=1Ki")


def test_an_amount_that_beats_an_arbitrary_precision_one_takes_over_its_shape():
    pod = a_pod(main("memory=1.5Gi"), init("memory=2Gi"), init("memory=1Gi"))

    greatest = pod_requests(pod)["memory"]

    assert str(greatest) == "2Gi"
    assert greatest.as_int64() is None


def test_each_reader_has_its_options():
    assert KUBELET == DESCRIBE_TOTAL == INCOMING == DemandOptions()
    assert QUOTA == DESCRIBE_ROW == DemandOptions(use_status=True)
    assert DemandOptions(use_status=True, use_pod_level_status=True) == ASSIGNED


# ------------------------------------------------------------------ limits as the kubelet sees them


def test_limits_are_seen_per_container_and_per_step_of_the_start():
    pod = a_pod(
        main("", "cpu=1"),
        main(),
        sidecar("", "cpu=2"),
        init("", "cpu=4"),
        sidecar("", "memory=1Gi"),
        init(),
    )

    seen = [texts(limits) for limits in container_limits_seen(pod)]

    assert seen == [
        {"cpu": "1"},
        {},
        {"cpu": "2"},
        {"cpu": "6"},
        {"cpu": "2", "memory": "1Gi"},
        {"cpu": "2", "memory": "1Gi"},
    ]


# ------------------------------------------------------------------ properties


def naive(pod: Pod, side: Side, name: str) -> Fraction | None:
    """The rule in words, counted anew in fractions, with no code shared."""

    def amount(container):
        listed = (
            container.resources.requests if side is Side.REQUESTS else container.resources.limits
        )
        return None if name not in listed else Fraction(listed[name].nanos)

    everybody = [amount(c) for c in pod.containers] + [amount(c) for c in pod.init_containers]
    present = any(found is not None for found in everybody)
    sidecars = Fraction(0)
    peak = Fraction(0)
    for container in pod.init_containers:
        if container.is_sidecar:
            sidecars += amount(container) or 0
        else:
            peak = max(peak, sidecars + (amount(container) or 0))
    total = max(sum((amount(c) or 0 for c in pod.containers), sidecars), peak)
    stated = getattr(pod.resources, side.value, {})
    if name in stated and is_pod_level(name):
        present, total = True, Fraction(stated[name].nanos)
    extra = pod.overhead.get(name)
    if extra is not None and (side is Side.REQUESTS or (present and total)):
        present, total = True, total + extra.nanos
    return total if present else None


@settings(max_examples=100)
@given(pods(resized=False).map(as_pod), st.sampled_from([INCOMING, QUOTA]))
def test_demand_equals_a_naive_count(pod, options):
    names = {"cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "hugepages-1Gi"}
    names |= {"example.com/foo", "nvidia.com/gpu"}
    for side, demand in ((Side.REQUESTS, pod_requests), (Side.LIMITS, pod_limits)):
        counted = {n: a for n in names if (a := naive(pod, side, n)) is not None}

        assert {n: Fraction(q.nanos) for n, q in demand(pod, options).items()} == counted


@settings(max_examples=50)
@given(pods().map(as_pod))
def test_the_pod_is_left_as_it_was(pod):
    before = repr(pod)
    pod_requests(pod, ASSIGNED)
    pod_limits(pod, ASSIGNED)

    assert repr(pod) == before


def test_amounts_beyond_64_bits_are_exact():
    pod = a_pod(main("cpu=9E"), main("cpu=9E"))

    assert pod_requests(pod)["cpu"] == Quantity.parse("18E")
