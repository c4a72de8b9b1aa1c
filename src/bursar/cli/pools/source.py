"""ClusterResources, and the pods and namespaces that concern them, out of what a verb has read."""

import sys
from collections.abc import Sequence

from bursar.adapters.files.manifests import ManifestError, Manifests, read_manifests
from bursar.app.extender.kinds import CLUSTER_RESOURCES
from bursar.app.extender.report import PoolObjects
from bursar.cli.errors.exit_codes import BadInputError
from bursar.core.model.defaulting import with_defaults
from bursar.core.model.pod_row import row_of
from bursar.wire.pools import decode_pool


def objects_of_files(files: Sequence[str]) -> PoolObjects:
    """Raises `BadInputError`."""
    try:
        manifests = read_manifests(files, sys.stdin.buffer, kept=(CLUSTER_RESOURCES,))
    except ManifestError as error:
        raise BadInputError(str(error)) from None
    return pool_objects_of(manifests, is_live=False)


def pool_objects_of(manifests: Manifests, *, is_live: bool) -> PoolObjects:
    """The objects of a report. Raises `BadInputError`.

    In a file, a ClusterResource that cannot be used is an error. In a cluster it gives nothing to
    any pod, and the report says why.
    """
    try:
        pools = [decode_pool(body) for body in manifests.bodies[CLUSTER_RESOURCES]]
    except ValueError as error:
        raise BadInputError(str(error)) from None
    for pool in pools:
        if pool.problem and not is_live:
            raise BadInputError(f"{CLUSTER_RESOURCES.kind} {pool.name}: spec.{pool.problem}")
    return PoolObjects(
        pools=pools,
        namespaces=list(manifests.namespaces),
        rows=[row_of(with_defaults(pod)) for pod in manifests.pods],
    )
