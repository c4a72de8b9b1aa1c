"""What the author of a peer pod should know about its rewrite, each thing once.

What is on record was told before: an API server that asks again would repeat it to the author.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from bursar.core.model.names import CPU, MEMORY
from bursar.core.model.pod import NO_RESOURCES, Pod, ResourceRequirements
from bursar.core.model.quantity import Quantity
from bursar.core.peerpods.annotating import NOT_FOR_USERS
from bursar.core.peerpods.json_document import JsonObject
from bursar.core.peerpods.record import NO_RECORD, RECORD_ANNOTATION, Record
from bursar.core.peerpods.removed import Removed
from bursar.core.peerpods.settings import PeerPodSettings
from bursar.core.peerpods.showing import shown_fields

_ONE: Final = Quantity.of(1)


class News(NamedTuple):
    document: JsonObject
    pod: Pod
    known: Record | None
    """What was removed before."""
    found: tuple[Removed, ...]
    """What there was to remove now, of every container."""


def warnings_about(news: News, settings: PeerPodSettings) -> Iterator[str]:
    pod = news.pod
    if news.known is None and RECORD_ANNOTATION in pod.annotations:
        yield NOT_FOR_USERS
    asked = [
        container.resources.requests.get(settings.vm_resource, _ONE)
        for container in (*pod.init_containers, *pod.containers)
    ]
    if wrong := dict.fromkeys(str(vms) for vms in asked if vms != _ONE):
        yield f"{settings.vm_resource}: a peer pod has exactly one, not {', '.join(wrong)}"
    yield from _losses(news, {CPU, MEMORY, *settings.gpu_resources})
    yield from _what_is_shown(news)


def _losses(news: News, passed_on: set[str]) -> Iterator[str]:
    lost: dict[str, None] = {}
    claims: dict[str, None] = {}
    for resources, told in _with_what_was_told(news):
        known_names = passed_on.union(told.requests, told.limits)
        names = (*resources.requests, *resources.limits)
        lost |= dict.fromkeys([name for name in names if name not in known_names])
        known_claims = frozenset(told.claims)
        claims |= dict.fromkeys([c.name for c in resources.claims if c not in known_claims])
    if lost:
        yield f"removed, and not passed on to the VM: {', '.join(lost)}"
    if claims:
        yield f"claims are not passed on to the VM: {', '.join(claims)}"


def _with_what_was_told(
    news: News,
) -> Iterator[tuple[ResourceRequirements, ResourceRequirements]]:
    """What is removed now, of each container and of the pod itself, with what was before."""
    known = news.known or NO_RECORD
    before = known.by_name()
    for each in news.found:
        yield each.resources, before.get(each.name, NO_RESOURCES)
    if news.pod.resources is not None:
        yield news.pod.resources, known.pod


def _what_is_shown(news: News) -> Iterator[str]:
    fields = dict.fromkeys(shown_fields(news.document))
    if not fields:
        return
    now = {each.name: each.resources for each in news.found}
    before = (news.known or NO_RECORD).by_name()
    # Containers without a limit of their own see that of the pod.
    shared = ResourceRequirements(limits=(news.pod.resources or NO_RESOURCES).limits)
    told = [
        str(field)
        for field in fields
        if field.is_in(now.get(field.container, NO_RESOURCES))
        or (field.container in now and field.is_in(shared))
        if not field.is_in(before.get(field.container, NO_RESOURCES))
    ]
    if told:
        yield f"resourceFieldRef does not see the VM: {', '.join(told)}"
