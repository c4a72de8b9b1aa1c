"""The size annotations and the instance type of a peer pod.

A size is a whole number: the cloud-api-adaptor reads any other text as zero.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from bursar.core.peerpods.instances import Chosen, MachineSize, best_choice, named_problem
from bursar.core.peerpods.machine_size import machine_size, whole_number
from bursar.core.peerpods.names import (
    GPUS_ANNOTATION,
    MACHINE_TYPE_ANNOTATION,
    MEMORY_ALIAS_ANNOTATION,
    MEMORY_ANNOTATION,
    RECORD_ANNOTATION,
    VCPUS_ANNOTATION,
)
from bursar.core.peerpods.record import Record
from bursar.core.peerpods.settings import OwnSizes, PeerPodSettings
from bursar.core.peerpods.sizing import NO_SIZE, SizeTexts
from bursar.core.peerpods.warnings import RECORD_IGNORED

SIZE_ANNOTATIONS: Final = (
    VCPUS_ANNOTATION,
    MEMORY_ANNOTATION,
    MEMORY_ALIAS_ANNOTATION,
    GPUS_ANNOTATION,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """The pod becomes a peer pod with these annotations, and its resources are removed."""

    annotations: Mapping[str, str]
    """All annotations of the pod afterwards, except the record."""
    record: Record | None = None
    """The record to write; None to have none on the pod."""
    size: SizeTexts
    """The annotated size."""
    instance: str = ""
    """The instance type chosen by the rewrite; empty if it chose none."""
    warnings: tuple[str, ...] = ()


def annotated_as_upstream(
    held: Mapping[str, str], size: SizeTexts, settings: PeerPodSettings
) -> Rewrite:
    """Replace the annotations of which a size was computed; leave the others as they are.

    A record that came with the pod is dropped: a quota would charge it, but the VM ignores it.
    """
    after = {**held, **_size_annotations(size, settings)}
    has_record = after.pop(RECORD_ANNOTATION, None) is not None
    return Rewrite(
        annotations=after,
        size=SizeTexts(
            after.get(VCPUS_ANNOTATION, ""),
            after.get(MEMORY_ANNOTATION, ""),
            after.get(GPUS_ANNOTATION, ""),
        ),
        warnings=(RECORD_IGNORED,) if has_record else (),
    )


def annotated(
    held: Mapping[str, str], record: Record, wanted: MachineSize, settings: PeerPodSettings
) -> Rewrite:
    """Combine the computed size with the sizes and the instance type that the pod has."""
    size, warnings = _combined_size(held, record, wanted, settings.own_sizes)
    after = dict(held)
    if settings.own_sizes is OwnSizes.OVERRIDE:
        for key in SIZE_ANNOTATIONS:
            after.pop(key, None)
    after |= _size_annotations(size, settings)
    after.pop(RECORD_ANNOTATION, None)
    instance, complaint = _instance(held, record, size, settings)
    if record.instance and after.get(MACHINE_TYPE_ANNOTATION) == record.instance:
        del after[MACHINE_TYPE_ANNOTATION]
    if instance:
        after[MACHINE_TYPE_ANNOTATION] = instance
    # A size is on record even if nothing was removed, and so is a type that the rewrite chose.
    has_record = not record.is_empty or size != NO_SIZE or instance
    return Rewrite(
        annotations=after,
        record=replace(record, size=size, instance=instance) if has_record else None,
        size=size,
        instance=instance,
        warnings=(*warnings, *complaint),
    )


def _size_annotations(size: SizeTexts, settings: PeerPodSettings) -> dict[str, str]:
    texts = {
        VCPUS_ANNOTATION: size.vcpus,
        MEMORY_ANNOTATION: size.memory,
        GPUS_ANNOTATION: size.gpus,
    }
    if settings.writes_memory_alias:
        texts[MEMORY_ALIAS_ANNOTATION] = size.memory
    return {key: text for key, text in texts.items() if text}


# ------------------------------------------------------------------ sizes


def _combined_size(
    held: Mapping[str, str], record: Record, wanted: MachineSize, rule: OwnSizes
) -> tuple[SizeTexts, list[str]]:
    warnings: list[str] = []
    combined: list[str] = []
    own_memory = held.get(MEMORY_ANNOTATION) or held.get(MEMORY_ALIAS_ANNOTATION, "")
    for key, own, count, ours in (
        (VCPUS_ANNOTATION, held.get(VCPUS_ANNOTATION, ""), wanted.vcpus, record.size.vcpus),
        (MEMORY_ANNOTATION, own_memory, wanted.memory_mib, record.size.memory),
        (GPUS_ANNOTATION, held.get(GPUS_ANNOTATION, ""), wanted.gpus, record.size.gpus),
    ):
        text, complaint = _combined(own, count, rule)
        combined.append(text)
        if complaint and own != ours:
            warnings.append(f"annotation {key}: {complaint}")
    return SizeTexts(*combined), warnings


def _combined(own: str, wanted: int, rule: OwnSizes) -> tuple[str, str]:
    """The size to annotate, and a warning if it differs from the author's own size."""
    if not own:
        return str(wanted or ""), ""
    count = whole_number(own)
    if not wanted and rule is OwnSizes.OVERRIDE:
        return "", "overridden: the containers ask for none"
    if not wanted:
        return own, "" if count is not None else "not a whole number, and taken for none"
    if count is None:
        return str(wanted), f"not a whole number; it becomes {wanted}, as the containers need"
    if count < wanted:
        return str(wanted), f"{count} is less than the containers need; it becomes {wanted}"
    if count > wanted and rule is OwnSizes.OVERRIDE:
        return str(wanted), f"{count} is overridden by what the containers need, {wanted}"
    return own, ""


# ------------------------------------------------------------------ the instance type


def _instance(
    held: Mapping[str, str], record: Record, size: SizeTexts, settings: PeerPodSettings
) -> tuple[str, tuple[str, ...]]:
    """The type to write; empty if the author named one, or there is no catalogue to choose from."""
    named = held.get(MACHINE_TYPE_ANNOTATION, "")
    wanted = machine_size(size)
    if named and named != record.instance:
        problem = named_problem(wanted, settings.catalogue, named) if settings.catalogue else ""
        return "", (problem,) if problem else ()
    if not settings.catalogue or wanted.is_nothing:
        return named, ()
    choice = best_choice(wanted, settings.catalogue)
    if isinstance(choice, Chosen):
        return choice.name, ()
    return "", (choice.message,)
