"""The quick check of a pod's resources: it passes no pod that the full validation refuses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.core.model.pod import Container, Pod, ResourceRequirements
from bursar.core.model.quantity import Quantity
from bursar.core.model.validation.pod import validate_pod_spec
from bursar.core.peerpods.validation.trivially_valid import COUNT_NANOS_MAX, is_trivially_valid
from bursar.wire.peerpods.pod import read_pod
from support.builders.peer_pods import PEER_PODS, VM, a_peer_pod, init, main

GPU = "nvidia.com/gpu"


@pytest.mark.parametrize(
    "containers",
    [
        [main()],
        [main("cpu=1 memory=1Gi", "cpu=2 memory=1Gi"), init("ephemeral-storage=1", "cpu=1")],
        [main(f"cpu=1 {GPU}=2", f"{GPU}=2")],
        [main(f"{VM}=1", f"{VM}=1")],
    ],
)
def test_ordinary_pods_are_trivially_valid(containers):
    assert is_trivially_valid(read_pod(a_peer_pod(*containers)))


@pytest.mark.parametrize(
    "fields",
    [
        {"requests": "cpu=-1"},
        {"limits": "memory=-1"},
        {"requests": "cpu=2", "limits": "cpu=1"},
        {"requests": f"{GPU}=1"},
        {"requests": f"{GPU}=1", "limits": f"{GPU}=2"},
        {"limits": f"{GPU}=1500m"},
        {"limits": f"{GPU}=-1"},
        {"limits": f"{GPU}=10E"},
        {"limits": "hugepages-2Mi=2Mi"},
        {"requests": "unknown=1"},
    ],
)
def test_what_may_be_wrong_needs_the_full_validation(fields):
    assert not is_trivially_valid(read_pod(a_peer_pod(main(**fields))))


def test_claims_and_resources_of_the_pod_itself_need_the_full_validation():
    with_claim = a_peer_pod(main("cpu=1"))
    with_claim["spec"]["containers"][0]["resources"]["claims"] = [{"name": "card"}]

    assert not is_trivially_valid(read_pod(with_claim))
    assert not is_trivially_valid(read_pod(a_peer_pod(main(), resourceClaims=[{"name": "card"}])))
    assert not is_trivially_valid(read_pod(a_peer_pod(main(), resources={})))


NAMES = st.sampled_from(
    ["cpu", "memory", "ephemeral-storage", GPU, "pods", "hugepages-2Mi", "-bad.com/x", "a/b/c", "x"]
) | st.from_regex(r"[-a-zA-Z0-9_./]{1,12}", fullmatch=True)
AMOUNTS = (
    st.sampled_from(["0", "1", "1.000", "1500m", "-1", "1Ki", "1e3", "1099511627776", "9E", "1e99"])
    | st.integers(-2, 2 * COUNT_NANOS_MAX).map(lambda nanos: f"{nanos}n")
).map(Quantity.parse)
SIDES = st.dictionaries(NAMES, AMOUNTS, max_size=3)


@st.composite
def blocks(draw):
    requests = draw(SIDES)
    limits = draw(st.just(requests) | SIDES)
    return ResourceRequirements(requests=requests, limits=limits)


@given(st.lists(blocks(), min_size=1, max_size=3))
def test_a_trivially_valid_pod_is_valid(drawn):
    containers = tuple(
        Container(name=f"c{number}", resources=each) for number, each in enumerate(drawn)
    )
    pod = Pod(namespace="shop", name="web", containers=containers, init_containers=containers)

    assert not is_trivially_valid(pod) or validate_pod_spec(pod) == ()


@given(PEER_PODS)
def test_a_trivially_valid_pod_of_an_api_server_is_valid(raw):
    pod = read_pod(raw)

    assert not is_trivially_valid(pod) or validate_pod_spec(pod) == ()
