"""Objects that processes make at run time, and that go when Bursar is uninstalled.

Leases and the Secrets of certificates are in no manifest, so no uninstallation knows of them.
Each has the service account of the process that makes it as its owner: when the account is
deleted, Kubernetes deletes them too, and also an object that a process creates after the deletion.
"""

import json
from typing import Final

from bursar.app.cluster.kinds import SERVICE_ACCOUNTS
from bursar.app.cluster.ports import ForbiddenError, Json, Key, NotFoundError, Reader
from bursar.app.names import CONTROLLER

NO_OWNER: Final[tuple[Json, ...]] = ()


async def owner_references(
    reader: Reader, namespace: str, account: str = CONTROLLER
) -> tuple[Json, ...]:
    """The `ownerReferences` of an object that goes with a service account of Bursar's.

    Empty if the account does not exist or may not be read, for example if the process runs
    outside the cluster. Raises `ClusterError`.
    """
    try:
        body = await reader.get(SERVICE_ACCOUNTS, Key(namespace, account))
    except (NotFoundError, ForbiddenError):
        return NO_OWNER
    stored = json.loads(body)
    owner: Json = {
        "apiVersion": SERVICE_ACCOUNTS.api_version,
        "kind": SERVICE_ACCOUNTS.kind,
        "name": account,
        "uid": stored["metadata"]["uid"],
    }
    return (owner,)
