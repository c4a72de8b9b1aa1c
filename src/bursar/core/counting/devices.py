"""The counter of devices: charges GPUs and other devices under one name, however pods ask for them.

A pod can ask for a GPU by several resource names, in devices or in percent of one. A central
scheduler then writes to an annotation which devices the pod got. A quota on one of the resource
names therefore limits only some of the pods. This counter charges all of them under one name of
the device's kind, in devices: half a GPU costs 500m.

The charge is the greater of what the pod requests and what the annotation says. The requests are
known before the pod is scheduled, and the tenant cannot change them later. The annotation can only
raise the charge, because the tenant could have written it.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from bursar.core.counting.counter import Counted, fact_of
from bursar.core.counting.device_settings import DeviceCounting, charged_name
from bursar.core.devices.claim import Claim, Claims
from bursar.core.devices.source import KindRule, Source
from bursar.core.model.names import QUOTA_REQUESTS_PREFIX
from bursar.core.model.pod_row import PodDemand, PodRow
from bursar.core.model.quantity import MILLI, ZERO, Quantity
from bursar.core.model.resources import ResourceList
from bursar.core.quota.counting import IndependentPods
from bursar.core.sharing import Attached

NAME: Final = "devices"
WHOLE: Final = 100
"""Percent of one device."""


class DeviceFacts(NamedTuple):
    """The devices that annotations of a pod name."""

    allocated: tuple[tuple[str, int], ...]
    """Percent of one device, by the name for quotas."""


DeriveDevices: TypeAlias = Callable[[bytes], DeviceFacts | None]


def device_facts(claims: Iterable[Claims], sources: Mapping[str, Source]) -> DeviceFacts | None:
    """The sum for each kind of device; None if the annotations name no device."""
    allocated: dict[str, int] = {}
    for each in claims:
        source = sources[each.source]
        for claim in each.claims:
            if claim.kind in source.kinds:
                name = charged_name(source, claim.kind)
                percent = _claimed_percent(claim, source.kinds[claim.kind])
                allocated[name] = allocated.get(name, 0) + percent
    return DeviceFacts(tuple(sorted(allocated.items()))) if allocated else None


def _claimed_percent(claim: Claim, rule: KindRule) -> int:
    """How much of the device; a part of unknown size counts as the whole device."""
    percents = [claim.amounts[name] for name in rule.percent if name in claim.amounts]
    return min(WHOLE, max(percents, default=WHOLE))


class DeviceCounter(IndependentPods):
    """Charges devices beside native counting."""

    name: Final = NAME

    def __init__(self, settings: DeviceCounting, derive: DeriveDevices) -> None:
        self._derive: Final = derive
        self._rules: Final = tuple(settings.rules())
        self._names: Final = frozenset(name for name, _ in self._rules)
        self._asked_by: Final = frozenset(
            name
            for _, rule in self._rules
            for name in (*rule.askers, *rule.names, *rule.counts, *rule.percent)
        )

        self._wide: Final[Attached[PodDemand, ResourceList]] = Attached()
        """The requests of pods with very many resource names."""

    def derive_facts(self, body: bytes) -> DeviceFacts | None:
        return self._derive(body)

    def may_charge(self, resource: str) -> bool:
        return resource.removeprefix(QUOTA_REQUESTS_PREFIX) in self._names

    def count(self, row: PodRow) -> Counted | None:
        facts = fact_of(row, DeviceFacts)
        requests = self._requests(row.demand)
        if facts is None and self._asked_by.isdisjoint(requests):
            return None
        asked: dict[str, int] = {}
        for name, rule in self._rules:
            asked[name] = asked.get(name, 0) + _asked_percent(requests, rule)
        allocated = {} if facts is None else dict(facts.allocated)
        percents = {name: max(asked[name], allocated.get(name, 0)) for name in asked}
        amounts = {name: _devices(percent) for name, percent in percents.items() if percent}
        if not amounts:
            return None
        both = {**amounts, **{QUOTA_REQUESTS_PREFIX + name: amounts[name] for name in amounts}}
        return Counted(both, _reason(amounts, asked, allocated), is_addition=True)

    def _requests(self, demand: PodDemand) -> ResourceList:
        """What a pod requests, with at least the names that ask for devices."""
        if demand.rest is None:
            return demand.quota_requests
        known = self._wide.find(demand)
        if known is None:
            known = demand.in_names(self._asked_by).quota_requests
            self._wide.keep(demand, known)
        return known


def _asked_percent(requests: ResourceList, rule: KindRule) -> int:
    """What the pod requests, in percent of one device.

    Names that neither count devices nor are percent, such as GPU memory in bytes, do not tell how
    much of a device they are: they count as one whole device.
    """
    counts = (rule.counts | rule.names) - set(rule.percent)
    whole = max((_units(requests, name) for name in counts), default=0)
    percent = max((_units(requests, name) for name in rule.percent), default=0)
    others = rule.askers - counts - set(rule.percent)
    least = WHOLE if any(_units(requests, name) for name in others) else 0
    return max(whole * WHOLE, percent, least)


def _units(requests: ResourceList, name: str) -> int:
    return requests.get(name, ZERO).whole_units


def _devices(percent: int) -> Quantity:
    return Quantity.of(percent * (1000 // WHOLE), scale=MILLI)


def _reason(amounts: ResourceList, asked: Mapping[str, int], allocated: Mapping[str, int]) -> str:
    return ", ".join(
        f"{name}: {amount} {'allocated' if allocated.get(name, 0) > asked[name] else 'requested'}"
        for name, amount in amounts.items()
    )
