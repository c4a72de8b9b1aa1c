"""Switch the gate on when the controller is able to release pods.

A pod that is gated before any controller works would wait for ever. So the policies and the webhook
gate pods only if the controller's service account has `GATING_ANNOTATION`, and a leader writes it
when its caches are synced for the first time. Nothing removes it later: while the controller is
down, new pods wait. If the service account is deleted, no user can remove gates, and gating stops.
"""

from typing import Final

from bursar.app.cluster.kinds import SERVICE_ACCOUNTS
from bursar.app.cluster.ports import (
    Clock,
    ClusterError,
    Key,
    NotFoundError,
    Patch,
    PatchKind,
    Writer,
)
from bursar.app.log import Log
from bursar.app.names import CONTROLLER, GATING_ACTIVE, GATING_ANNOTATION

LOG: Final = Log("controller")
RETRY_SECONDS: Final = 5.0

_ACTIVE: Final = Patch(
    kind=PatchKind.MERGE,
    body={"metadata": {"annotations": {GATING_ANNOTATION: GATING_ACTIVE}}},
)


async def activate_gate(writer: Writer, clock: Clock, namespace: str) -> None:
    """Write the annotation. Tries again until it succeeds.

    If the service account does not exist, the manifests of Bursar have not been applied yet.
    """
    account = Key(namespace, CONTROLLER)
    while True:
        try:
            await writer.patch(SERVICE_ACCOUNTS, account, _ACTIVE)
        except NotFoundError:
            LOG.info("new pods are not gated: the service account is missing", account=account)
        except ClusterError as error:
            LOG.warning("cannot switch the gate on; trying again", account=account, error=error)
        else:
            LOG.info("new pods of the selected namespaces are gated")
            return
        await clock.sleep(RETRY_SECONDS)
