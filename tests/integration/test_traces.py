"""Traces of real processes on a real cluster, sent to a receiver of OTLP."""

import http.client
import json
from contextlib import closing

import pytest

from controlplane import LOOPBACK
from support.builders.reviews import a_review, raw_pod
from support.collector import a_collector, attributes
from support.quota.installed_aaq import a_system
from support.until import until_sync

TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture(scope="module")
def collector():
    with a_collector() as found:
        yield found


@pytest.fixture(scope="module")
def system(control_plane, tmp_path_factory, collector):
    """Controller and webhook trace, by the environment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        folder = tmp_path_factory.mktemp("system")
        with a_system(control_plane, folder, "--trace-names") as system:
            yield system


def review(webhook):
    body = json.dumps(a_review("Pod", "CREATE", raw_pod())).encode()
    headers = {
        "Content-Type": "application/json",
        "traceparent": f"00-{TRACE}-b7ad6b7169203331-01",
    }
    client = http.client.HTTPSConnection(LOOPBACK, webhook.port, context=webhook.trust())
    with closing(client):
        client.request("POST", "/serve-path", body, headers)
        return json.load(client.getresponse())


def test_a_pod_a_review_and_a_reconcile_are_traced(system, place, collector):
    place.quota({"pods": "5"})
    place.admit("traced", "memory=1Mi")
    assert review(system.webhook)["response"]["allowed"]

    def released():
        found = [attributes(each) for each in collector.named("release pod")]
        return [each for each in found if each["k8s.pod.name"] == "traced"]

    until_sync(lambda: len(released()) == 1, collector.spans)
    assert released()[0]["k8s.namespace.name"] == place.name
    assert collector.named("remove gate")
    until_sync(
        lambda: [
            each
            for each in collector.named("reconcile")
            if place.name in attributes(each)["bursar.object"] and attributes(each)["bursar.wrote"]
        ],
        "the status of the quota was written",
    )
    until_sync(
        lambda: [
            each for each in collector.named("admission review") if each.trace_id.hex() == TRACE
        ],
        "the review is a part of the caller's trace",
    )


def test_a_collector_that_hangs_delays_neither_reviews_nor_releases(system, place, collector):
    collector.released.clear()
    try:
        place.quota({"pods": "50"})
        for number in range(20):
            place.admit(f"p{number}", "memory=1Mi")
            assert review(system.webhook)["response"]["allowed"]
    finally:
        collector.released.set()
