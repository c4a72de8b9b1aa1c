"""Which annotations a peer pod gets, and what becomes of those its author wrote.

A size is a whole number there, because the adaptor takes anything else for zero.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from bursar.core.model.int64 import INT64_MAX, INT64_MIN
from bursar.core.model.pod import ResourceRequirements
from bursar.core.peerpods.instances import Chosen, MachineSize, best_choice, named_problem
from bursar.core.peerpods.record import RECORD_ANNOTATION, Record, format_record
from bursar.core.peerpods.removed import Removed
from bursar.core.peerpods.settings import (
    GPUS_ANNOTATION,
    MACHINE_TYPE_ANNOTATION,
    MEMORY_ALIAS_ANNOTATION,
    MEMORY_ANNOTATION,
    VCPUS_ANNOTATION,
    OwnSizes,
    PeerPodSettings,
)
from bursar.core.peerpods.sizing import NO_SIZE, SizeTexts

ANNOTATIONS_BYTES_MAX: Final = 1 << 18
"""Keys and values together; the API server accepts no more."""

NOT_FOR_USERS: Final = f"annotation {RECORD_ANNOTATION} is not for users: what it said is ignored"
UTF8_BYTES_MAX: Final = 4
"""Of one character."""
ENTRY_BYTES_MIN: Final = len('"a":"1",')
"""Of an amount or a claim in a record."""

SIZE_ANNOTATIONS: Final = (
    *(VCPUS_ANNOTATION, MEMORY_ANNOTATION, MEMORY_ALIAS_ANNOTATION, GPUS_ANNOTATION),
)

_WHOLE: Final = re.compile(r"[+-]?0*[0-9]{1,19}")


class AnnotationsTooLargeError(ValueError):
    """What was removed does not fit beside the annotations that are there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotated:
    annotations: Mapping[str, str]
    """All that the pod has afterwards."""
    size: SizeTexts
    instance: str = ""
    warnings: tuple[str, ...] = ()


def annotate_as_upstream(
    held: Mapping[str, str], size: SizeTexts, settings: PeerPodSettings
) -> Annotated:
    """What was computed replaces what is there; where nothing was, what is there stays.

    Nobody keeps a record in this mode. One that came with the pod would be believed by those
    who charge for it, though the VM is not made of it.
    """
    after = {**held, **_size_annotations(size, settings)}
    is_forged = after.pop(RECORD_ANNOTATION, None) is not None
    return Annotated(
        warnings=(NOT_FOR_USERS,) if is_forged else (),
        annotations=after,
        size=SizeTexts(
            after.get(VCPUS_ANNOTATION, ""),
            after.get(MEMORY_ANNOTATION, ""),
            after.get(GPUS_ANNOTATION, ""),
        ),
    )


def annotate(
    held: Mapping[str, str], record: Record, wanted: MachineSize, settings: PeerPodSettings
) -> Annotated:
    """Settle sizes and instance type, and put the record beside them.

    Raises `AnnotationsTooLargeError`.
    """
    size, warnings = _settled_size(held, record, wanted, settings.own_sizes)
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
    if not record.is_empty or size != NO_SIZE or instance:
        # Also where nothing was removed: a size is somebody's wish, and a type our choice.
        after[RECORD_ANNOTATION] = format_record(replace(record, size=size, instance=instance))
        _require_room(after)
    return Annotated(
        annotations=after, size=size, instance=instance, warnings=(*warnings, *complaint)
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


def require_room_for(removed: Iterable[Removed], stated_by_pod: ResourceRequirements) -> None:
    """Refuse at once what no record can hold, before much time is spent on it.

    Raises `AnnotationsTooLargeError`.
    """
    entries = sum(
        len(each.requests) + len(each.limits) + len(each.claims)
        for each in (stated_by_pod, *(each.resources for each in removed))
    )
    if entries * ENTRY_BYTES_MIN > ANNOTATIONS_BYTES_MAX:
        raise AnnotationsTooLargeError(
            "metadata.annotations: what is removed from the containers is written down in "
            f"{RECORD_ANNOTATION}, and {entries} amounts and claims have no room there; "
            f"Kubernetes allows {ANNOTATIONS_BYTES_MAX} bytes"
        )


def _require_room(annotations: Mapping[str, str]) -> None:
    length = sum(map(len, annotations)) + sum(map(len, annotations.values()))
    if length * UTF8_BYTES_MAX <= ANNOTATIONS_BYTES_MAX:
        return  # whatever the characters are
    total = sum(
        len(text.encode(errors="surrogatepass")) for pair in annotations.items() for text in pair
    )
    if total > ANNOTATIONS_BYTES_MAX:
        raise AnnotationsTooLargeError(
            "metadata.annotations: what is removed from the containers is written down in "
            f"{RECORD_ANNOTATION}, and with it they have {total} bytes; Kubernetes allows "
            f"{ANNOTATIONS_BYTES_MAX}"
        )


# ------------------------------------------------------------------ sizes


def _settled_size(
    held: Mapping[str, str], record: Record, wanted: MachineSize, rule: OwnSizes
) -> tuple[SizeTexts, list[str]]:
    warnings: list[str] = []
    settled: list[str] = []
    own_memory = held.get(MEMORY_ANNOTATION) or held.get(MEMORY_ALIAS_ANNOTATION, "")
    for key, own, count, ours in (
        (VCPUS_ANNOTATION, held.get(VCPUS_ANNOTATION, ""), wanted.vcpus, record.size.vcpus),
        (MEMORY_ANNOTATION, own_memory, wanted.memory_mib, record.size.memory),
        (GPUS_ANNOTATION, held.get(GPUS_ANNOTATION, ""), wanted.gpus, record.size.gpus),
    ):
        text, complaint = _settled(own, count, rule)
        settled.append(text)
        if complaint and own != ours:
            warnings.append(f"annotation {key}: {complaint}")
    return SizeTexts(*settled), warnings


def _settled(own: str, wanted: int, rule: OwnSizes) -> tuple[str, str]:
    """The size that is written, and what to say about it to the author of another one."""
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


def whole_number(text: str) -> int | None:
    """A size as the adaptor reads it; None for what it takes for nothing."""
    if not _WHOLE.fullmatch(text):
        return None
    sign, digits = ("-", text[1:]) if text[0] == "-" else ("", text.removeprefix("+"))
    # Without the zeros: Python refuses to read very many digits.
    count = int(sign + (digits.lstrip("0") or "0"))
    return count if INT64_MIN <= count <= INT64_MAX else None


# ------------------------------------------------------------------ the instance type


def _instance(
    held: Mapping[str, str], record: Record, size: SizeTexts, settings: PeerPodSettings
) -> tuple[str, tuple[str, ...]]:
    """The type to write; none if nobody asks for one, or the pod's author has named one."""
    named = held.get(MACHINE_TYPE_ANNOTATION, "")
    is_foreign = named and named != record.instance
    wanted = machine_size(size)
    if is_foreign:
        problem = named_problem(wanted, settings.catalogue, named) if settings.catalogue else ""
        return "", (problem,) if problem else ()
    if not settings.catalogue or wanted.is_nothing:
        return named, ()
    choice = best_choice(wanted, settings.catalogue)
    if isinstance(choice, Chosen):
        return choice.name, ()
    return "", (choice.message,)


def machine_size(size: SizeTexts) -> MachineSize:
    """Annotated sizes as the adaptor reads them."""
    vcpus, memory, gpus = (whole_number(text) or 0 for text in size)
    return MachineSize(vcpus=vcpus, memory_mib=memory, gpus=gpus)
