"""Whether the webhook gates new pods: not before a controller is able to release them.

The controller writes `GATING_ANNOTATION` on its service account (`app/controller/gate_activation`).
The webhook gates pods in every case but one: the service account exists and has no annotation. It
also gates pods if it does not know the account, for example because it may not read it.
"""

from random import Random

from bursar.app.cluster.informer.informer import Informer
from bursar.app.cluster.informer.store import Sighting
from bursar.app.cluster.kinds import SERVICE_ACCOUNTS
from bursar.app.cluster.observe import Watched, observe_one
from bursar.app.cluster.ports import Clock, Key
from bursar.app.names import CONTROLLER, GATING_ACTIVE, GATING_ANNOTATION
from bursar.wire.cluster.annotations import decode_annotation


def observe_gate(
    cluster: Watched, clock: Clock, random: Random, namespace: str
) -> Informer[Sighting[bool]]:
    """Watch the controller's service account: whether it has the annotation."""
    return observe_one(
        cluster, clock, random, SERVICE_ACCOUNTS, _is_active, Key(namespace, CONTROLLER)
    )


class GateSwitch:
    """Watches the controller's service account. `run` does the work."""

    def __init__(self, cluster: Watched, clock: Clock, random: Random, namespace: str) -> None:
        self._account = Key(namespace, CONTROLLER)
        self._informer = observe_gate(cluster, clock, random, namespace)

    @property
    def is_on(self) -> bool:
        found = self._informer.find(self._account)
        return found is None or found.item

    async def run(self) -> None:
        """Watch until cancelled."""
        await self._informer.run()


def _is_active(body: bytes) -> bool:
    return decode_annotation(body, GATING_ANNOTATION) == GATING_ACTIVE
