"""Objects that the controller makes at run time, and that go when Bursar is uninstalled.

The Lease and the Secrets of certificates are in no manifest, so no uninstallation knows of them.
Each has the controller's service account as its owner: when the account is deleted, Kubernetes
deletes them too, and also an object that a process creates after the deletion.
"""

import json
from typing import Final

from bursar.app.cluster.kinds import SERVICE_ACCOUNTS
from bursar.app.cluster.ports import ForbiddenError, Json, Key, NotFoundError, Reader
from bursar.app.names import CONTROLLER

NO_OWNER: Final[tuple[Json, ...]] = ()


async def owner_references(reader: Reader, namespace: str) -> tuple[Json, ...]:
    """The `ownerReferences` of an object that goes with the controller's service account.

    Empty if the account does not exist or may not be read, for example if the controller runs
    outside the cluster. Raises `ClusterError`.
    """
    try:
        body = await reader.get(SERVICE_ACCOUNTS, Key(namespace, CONTROLLER))
    except (NotFoundError, ForbiddenError):
        return NO_OWNER
    account = json.loads(body)
    owner: Json = {
        "apiVersion": SERVICE_ACCOUNTS.api_version,
        "kind": SERVICE_ACCOUNTS.kind,
        "name": CONTROLLER,
        "uid": account["metadata"]["uid"],
    }
    return (owner,)
