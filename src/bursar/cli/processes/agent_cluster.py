"""Which cluster an agent is part of, if any.

Apart from `cli/process`, which brings an HTTPS server and all that a controller knows: an agent
runs on every node, and every node pays for what it holds in memory.
"""

from collections.abc import Callable

from bursar.adapters.kube.access import ClusterAccess, load_in_cluster
from bursar.adapters.kube.config_error import ConfigError
from bursar.app.devices.places import PodsFrom
from bursar.cli.live_cluster import kubeconfigs


def find_cluster(
    kubeconfig: str | None, context: str, pods_from: PodsFrom, *, say: Callable[[str], None]
) -> ClusterAccess | None:
    """The one that was named, or that we run in. Raises `ConfigError`.

    None where there is none: kubelet alone is enough for most of what an agent does.
    """
    if kubeconfig is not None or context:
        from bursar.adapters.kube.config import load_kubeconfig  # noqa: PLC0415 - brings YAML

        return load_kubeconfig(kubeconfigs(kubeconfig), context=context)
    try:
        return load_in_cluster()
    except ConfigError as error:
        if pods_from is PodsFrom.API:
            raise
        say(f"without an API server, so without inventory and events: {error}")
        return None
