"""Whether a stored object still has everything that the operator applied.

The comparison saves requests: an object that has all fields is not applied again. It may find a
difference where the API server only writes a value in another form. Then the object is applied
once more, which changes nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from bursar.app.cluster.ports import Json

MERGED_LISTS: Final = frozenset(
    {"containers", "env", "matchConditions", "ports", "variables", "volumes", "webhooks"}
)
"""Lists whose items Kubernetes merges by name. Others may add items to them."""
WHOLE_MAPS: Final = frozenset(
    {"labelSelector", "matchLabels", "namespaceSelector", "nodeSelector", "podSelector", "selector"}
)
"""Maps that Kubernetes replaces as a whole. A further key is a difference."""


def has_all(stored: Json, wanted: Json, field: str = "") -> bool:
    """Whether the stored value has every field of the wanted one."""
    if isinstance(wanted, Mapping):
        if not isinstance(stored, Mapping) or (field in WHOLE_MAPS and set(stored) != set(wanted)):
            return False
        return all(
            key in stored and has_all(stored[key], value, key) for key, value in wanted.items()
        )
    if isinstance(wanted, Sequence) and not isinstance(wanted, str):
        if not isinstance(stored, Sequence) or isinstance(stored, str):
            return False
        if field in MERGED_LISTS:
            return _has_named(stored, wanted)
        return len(stored) == len(wanted) and all(map(has_all, stored, wanted))
    return stored == wanted


def _has_named(stored: Sequence[Json], wanted: Sequence[Json]) -> bool:
    by_name = {each.get("name"): each for each in stored if isinstance(each, Mapping)}
    return all(
        isinstance(each, Mapping) and has_all(by_name.get(each.get("name")), each)
        for each in wanted
    )
