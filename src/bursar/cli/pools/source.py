"""Where verbs about cluster-level resources read from: files, or the cluster of kubectl."""

import sys
from collections.abc import Sequence

from bursar.adapters.files.manifests import ManifestError, read_manifests
from bursar.app.extender.kinds import CLUSTER_RESOURCES
from bursar.app.extender.report import PoolObjects
from bursar.cli.exit_codes import BadInputError
from bursar.core.model.defaulting import with_defaults
from bursar.core.model.pod_row import row_of
from bursar.wire.pools import decode_pool


def objects_of_files(files: Sequence[str]) -> PoolObjects:
    """Raises `BadInputError`."""
    try:
        manifests = read_manifests(files, sys.stdin.buffer, kept=(CLUSTER_RESOURCES,))
        pools = [decode_pool(body) for body in manifests.bodies[CLUSTER_RESOURCES]]
    except (ManifestError, ValueError) as error:
        raise BadInputError(str(error)) from None
    for pool in pools:
        if pool.problem:
            raise BadInputError(f"{CLUSTER_RESOURCES.kind} {pool.name}: spec.{pool.problem}")
    return PoolObjects(
        pools=pools,
        namespaces=list(manifests.namespaces),
        rows=[row_of(with_defaults(pod)) for pod in manifests.pods],
    )
