"""Contexts, namespaces and names of objects, for completion. Without an answer there are none."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bursar.cli.help.completing import ValueQuery

if TYPE_CHECKING:
    from bursar.app.cluster.ports import Resource

PATIENCE_S: Final = 1.5
"""A user who presses Tab waits for this long, and then types the name."""
NAMES_MAX: Final = 500
"""A shell cannot show more in a useful way."""


def cluster_values(query: ValueQuery) -> Sequence[str]:
    """The values, sorted. Nothing is printed, whatever goes wrong: the user is typing."""
    try:
        return sorted(_contexts(query) if query.values == "contexts" else _names(query))
    except Exception:  # noqa: BLE001 - see above
        return ()


def _contexts(query: ValueQuery) -> set[str]:
    from bursar.adapters.kube.kubeconfig.merge import context_names  # noqa: PLC0415 - imports YAML

    listed = [path for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    paths = [query.kubeconfig] if query.kubeconfig else listed
    home = Path.home() / ".kube" / "config"
    return context_names([str(Path(path).expanduser()) for path in paths] or [str(home)])


def _names(query: ValueQuery) -> set[str]:
    import asyncio  # noqa: PLC0415 - most completions take no cluster

    kubeconfig = query.kubeconfig and str(Path(query.kubeconfig).expanduser())
    work = _listed(query._replace(kubeconfig=kubeconfig))
    return asyncio.run(asyncio.wait_for(work, PATIENCE_S))


async def _listed(query: ValueQuery) -> set[str]:
    from bursar.app.cluster.ports import Query  # noqa: PLC0415 - see above
    from bursar.cli.live_cluster import kubectls_namespace, live_cluster  # noqa: PLC0415
    from bursar.wire.cluster.object_identity import find_identity  # noqa: PLC0415

    names: set[str] = set()
    async with live_cluster(query.kubeconfig, query.context) as cluster:
        for resource in _resources(query.values):
            namespace = ""
            if resource.is_namespaced:
                namespace = query.namespace or kubectls_namespace(query.kubeconfig, query.context)
            page = await cluster.list(resource, Query(namespace=namespace), limit=NAMES_MAX)
            names |= {found.name for found in map(find_identity, page.items) if found is not None}
    return names


def _resources(values: str) -> "Sequence[Resource]":
    from bursar.app.cluster import kinds  # noqa: PLC0415 - see above
    from bursar.app.quota.kinds import APPLICATION_QUOTAS, CLUSTER_QUOTAS  # noqa: PLC0415

    return {
        "namespaces": (kinds.NAMESPACES,),
        "nodes": (kinds.NODES,),
        "pods": (kinds.PODS,),
        "resourcequotas": (kinds.RESOURCE_QUOTAS,),
        "quotas": (kinds.RESOURCE_QUOTAS, APPLICATION_QUOTAS, CLUSTER_QUOTAS),
    }[values]
