"""The counter of sidecars with the connections that it needs."""

from bursar.adapters.sidecars.connection import CallLimits
from bursar.adapters.sidecars.sockets import SocketFolder
from bursar.app.cluster.ports import Clock
from bursar.app.counting.feeds import CountingPart
from bursar.app.counting.sidecars.feed import SidecarFeed
from bursar.app.counting.sidecars.settings import SidecarFallback, SidecarScope, SidecarSettings
from bursar.core.counting.sidecars import SidecarCounter, SidecarRules
from bursar.wire.counting.pod_body import keep_body


def open_sidecars(settings: SidecarSettings, clock: Clock) -> CountingPart:
    sees_namespace = settings.scope is SidecarScope.NAMESPACE
    rules = SidecarRules(
        expected=settings.expected,
        falls_back=settings.fallback is SidecarFallback.NATIVE,
        sees_namespace=sees_namespace,
    )
    counter = SidecarCounter(rules, keep_body)
    limits = CallLimits(evaluate_s=settings.timeout_s)
    sockets = SocketFolder(settings.folder, trust=settings.trust, limits=limits)
    feed = SidecarFeed(counter, sockets, clock, sends_namespace=sees_namespace)
    left_out = counter.left_out if counter.falls_back else None
    return CountingPart(counter=counter, feeds=(feed,), left_out=left_out)
