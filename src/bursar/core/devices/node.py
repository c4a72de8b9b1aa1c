"""All pods of a node at once."""

from collections.abc import Iterable, Mapping

from bursar.core.devices.allocation import Holdings, PodKey
from bursar.core.devices.choosing import live_pods
from bursar.core.devices.inventory import Inventory
from bursar.core.devices.pod import DevicePod
from bursar.core.devices.resolving import Rules, resolve
from bursar.core.devices.sharing import numbered
from bursar.core.devices.source import Source


def holdings_by_pod(
    pods: Iterable[DevicePod],
    sources: Mapping[str, Source],
    inventory: Inventory | None,
    rules: Rules,
) -> dict[PodKey, Holdings]:
    """What each pod holds that any source speaks of; the others are left out."""
    found = [
        resolve(pod, sources, inventory, rules) for pod in live_pods(pods).values() if pod.claims
    ]
    named = numbered(found, sources) if rules.numbers_shares else found
    return {each.key: each for each in named}
