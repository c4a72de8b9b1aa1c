"""Rewriting of peer pods on the embedded cluster, in place of `bursar webhook --peer-pods`."""

from bursar.adapters.memory.admission import Admission, Admitted, Operation, Refused, Request
from bursar.app.cluster.kinds import PODS
from bursar.core.peerpods.decision import Denied, Untouched
from bursar.core.peerpods.settings import PeerPodSettings
from bursar.wire.peerpods.rewrite import rewrite

_ALLOWED = Admitted()


def rewrite_peer_pods(settings: PeerPodSettings) -> Admission:
    """A mutating plugin: new pods of the runtime classes request a VM in place of resources."""

    async def plugin(request: Request) -> Admitted | Refused:
        pod = request.new
        if request.resource != PODS or request.subresource or pod is None:
            return _ALLOWED
        if request.operation is not Operation.CREATE:
            return _ALLOWED
        decision, after = rewrite(dict(pod), settings)
        if isinstance(decision, Denied):
            return Refused(message=decision.message)
        return _ALLOWED if isinstance(decision, Untouched) else Admitted(body=after)

    return plugin
