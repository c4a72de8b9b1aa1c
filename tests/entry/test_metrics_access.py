"""Who may read /metrics of a process, by its options."""

import pytest

from bursar.adapters.kube.token_review import TokenReviewer
from bursar.adapters.memory.simulation.clock import VirtualClock
from bursar.adapters.serving.message import Request
from bursar.app.cluster.ports import UnavailableError
from bursar.cli.processes.options.process import MetricsAuth
from bursar.entry.metrics_access import metrics_guard, metrics_guard_without_cluster

SCRAPE = Request(method="GET", path="/metrics")


class NoServer:
    async def create(self, *_: object, **__: object) -> bytes:
        raise UnavailableError("no API server")


async def test_with_a_cluster_a_token_is_demanded_unless_the_option_says_otherwise():
    writer = NoServer()
    reviewer = TokenReviewer(writer, VirtualClock())

    guard = metrics_guard(MetricsAuth.KUBERNETES, writer, reviewer)

    assert (await guard(SCRAPE)).code == 401
    assert metrics_guard(MetricsAuth.NONE, writer, reviewer) is None


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost"])
def test_without_a_cluster_this_machine_may_read(host):
    assert metrics_guard_without_cluster(MetricsAuth.KUBERNETES, host) is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "node-1", ""])  # noqa: S104 - a test
async def test_without_a_cluster_no_other_machine_may_read(host):
    guard = metrics_guard_without_cluster(MetricsAuth.KUBERNETES, host)

    assert (await guard(SCRAPE)).code == 503
    assert metrics_guard_without_cluster(MetricsAuth.NONE, host) is None
