"""The syntax of a CronJob's schedule, as the library that the API server uses reads it."""

import re
from typing import Final

_MONTHS: Final = (
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
)
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_BOUNDS: Final[tuple[tuple[int, int, dict[str, int]], ...]] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: index for index, name in enumerate(_MONTHS, 1)}),
    (0, 6, {name: index for index, name in enumerate(_DAYS)}),
)
"""Lowest and highest value and the names of each field: minute, hour, day, month, weekday."""

_DESCRIPTORS: Final = frozenset(
    {"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}
)
_DURATION: Final = re.compile(
    r"[+-]?(?:0|(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+)"
)
_ZONE: Final = re.compile(r"(?:CRON_)?TZ=[^ ]* +")


class _FieldError(ValueError):
    """A field that cannot be read; the message is the library's."""


def schedule_error(schedule: str) -> str | None:
    """What is wrong with a schedule, in the library's words; None if nothing is."""
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        zone = _ZONE.match(schedule)
        if zone is None:
            return "invalid schedule format: runtime error: slice bounds out of range [:-1]"
        schedule = schedule[zone.end() :].strip()
    if schedule.startswith("@"):
        return _descriptor_error(schedule)
    fields = schedule.split()
    if len(fields) != len(_BOUNDS):
        listed = f"[{' '.join(fields)}]"
        return f"expected exactly 5 fields, found {len(fields)}: {listed}"
    try:
        for field, (least, most, names) in zip(fields, _BOUNDS, strict=True):
            for part in field.split(","):
                if part:
                    _check_range(part, least, most, names)
    except _FieldError as error:
        return str(error)
    return None


def _descriptor_error(schedule: str) -> str | None:
    if schedule in _DESCRIPTORS:
        return None
    if schedule.startswith("@every "):
        duration = schedule.removeprefix("@every ")
        if _DURATION.fullmatch(duration):
            return None
        return f'failed to parse duration {schedule}: time: invalid duration "{duration}"'
    return f"unrecognized descriptor: {schedule}"


def _check_range(part: str, least: int, most: int, names: dict[str, int]) -> None:
    bounds, *steps = part.split("/")
    ends = bounds.split("-")
    if ends[0] in {"*", "?"}:
        start, end = least, most
    else:
        start = _number(ends[0], names)
        if len(ends) > 2:
            raise _FieldError(f"too many hyphens: {part}")
        end = start if len(ends) == 1 else _number(ends[1], names)
    step = 1
    if len(steps) > 1:
        raise _FieldError(f"too many slashes: {part}")
    if steps:
        step = _number(steps[0], {})
        end = most if len(ends) == 1 else end
    if start < least:
        raise _FieldError(f"beginning of range ({start}) below minimum ({least}): {part}")
    if end > most:
        raise _FieldError(f"end of range ({end}) above maximum ({most}): {part}")
    if start > end:
        raise _FieldError(f"beginning of range ({start}) beyond end of range ({end}): {part}")
    if step == 0:
        raise _FieldError(f"step of range should be a positive number: {part}")


def _number(text: str, names: dict[str, int]) -> int:
    named = names.get(text.lower())
    if named is not None:
        return named
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        raise _FieldError(
            f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax'
        )
    number = int(text)
    if number < 0:
        raise _FieldError(f"negative number ({number}) not allowed: {text}")
    return number
