"""Reviews of pods, decoded as far as the rewrite looks at them."""

import json

import pytest

from bursar.wire.peerpods.review import decode_peer_pod, decode_peer_pod_review
from support.builders.peer_pods import a_peer_pod, main
from support.builders.reviews import a_review

FIELD = {"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}


def pod_with_env(*env):
    return a_peer_pod(main("cpu=1", env=list(env)), status={})


@pytest.mark.parametrize("env", [[], [FIELD]])
def test_a_review_and_its_pod_alone_are_decoded_alike(env):
    pod = pod_with_env(*env)
    review = decode_peer_pod_review(json.dumps(a_review("Pod", "CREATE", pod)).encode())

    assert review is not None
    assert review.pod == decode_peer_pod(json.dumps(pod).encode())
    [container] = review.pod["spec"]["containers"]
    assert container.get("env", []) == [{"valueFrom": each["valueFrom"]} for each in env]


def test_a_review_of_an_unknown_version_is_left_to_the_slow_decoder():
    review = {**a_review("Pod", "CREATE", pod_with_env()), "apiVersion": "admission.k8s.io/v2"}

    assert decode_peer_pod_review(json.dumps(review).encode()) is None
