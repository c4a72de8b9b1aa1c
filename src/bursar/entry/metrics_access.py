"""Who may read `/metrics` of a process."""

from http import HTTPStatus
from ipaddress import ip_address

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.kube.access_review import PathAccess
from bursar.adapters.kube.token_review import TokenReviewer
from bursar.adapters.serving.bearer import bearer_guard
from bursar.adapters.serving.message import Guard, Request, Response, refusal
from bursar.app.cluster.ports import Writer
from bursar.app.names import METRICS_PATH
from bursar.cli.processes.options.process import MetricsAuth


def metrics_guard(auth: MetricsAuth, writer: Writer, reviewer: TokenReviewer) -> Guard | None:
    """The guard of `/metrics`. None: any caller may read it."""
    if auth is MetricsAuth.NONE:
        return None
    access = PathAccess(writer, SYSTEM_CLOCK, METRICS_PATH)
    return bearer_guard(reviewer.find_user, access.problem_of)


def metrics_guard_without_cluster(auth: MetricsAuth, host: str) -> Guard | None:
    """The guard of a process that knows no API server: only this machine may read `/metrics`."""
    if auth is MetricsAuth.NONE or _is_loopback(host):
        return None
    return _refuse


async def _refuse(_: Request) -> Response | None:
    return refusal(HTTPStatus.SERVICE_UNAVAILABLE, "no API server is known that checks tokens")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
