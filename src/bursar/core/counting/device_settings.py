"""Which devices quotas count, and under which names.

Every command that counts pods has these settings, and few count devices. So the counter and the
descriptions of allocators are in modules of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bursar.core.quota.names import is_application_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bursar.core.devices.source import KindRule, Source


def charged_name(source: Source, kind: str) -> str:
    """The resource name by which quotas limit a kind of device.

    Raises `ValueError` if the kind's own name is none that a quota can list.
    """
    name = source.kinds[kind].charged_as or f"{kind.lower()}/{source.name}"
    if not is_application_name(name):
        raise ValueError(
            f"source {source.name!r}: no quota can list {name!r}; set chargedAs for its kind"
        )
    return name


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceCounting:
    """Which devices quotas count. Raises `ValueError` if a kind has no name for quotas."""

    sources: tuple[Source, ...] = ()
    """Allocators whose devices are counted. Empty: devices are not counted."""

    def __post_init__(self) -> None:
        for _ in self.rules():
            pass

    def rules(self) -> Iterator[tuple[str, KindRule]]:
        """Each kind of device: its name in quotas, and its rule."""
        for source in self.sources:
            for kind, rule in source.kinds.items():
                yield charged_name(source, kind), rule
