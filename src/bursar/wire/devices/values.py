"""Ids, names and amounts of devices from untrusted authors."""

from typing import Final

from bursar.core.model.numbers.int64 import INT64_MAX
from bursar.wire.structs.fields import FieldError, Scalar, decode_quantity, quoted

WORD_LENGTH_MAX: Final = 256
"""Maximum length of ids, kinds, names and vendors. Those of device plugins are below 64."""


def require_word(text: str, where: str) -> str:
    """Return an id or name if it is short and of printable ASCII characters.

    Raises `ValueError`.
    """
    if len(text) > WORD_LENGTH_MAX:
        raise ValueError(f"{where}: longer than {WORD_LENGTH_MAX} characters")
    if not (text.isascii() and text.isprintable()):
        raise ValueError(f"{where}: {quoted(text)} has other than printable ASCII characters")
    return text


def decode_amount(raw: Scalar, where: str) -> int:
    """Decode an amount to whole units, rounded up and at most the greatest int64.

    Raises `ValueError`, also for an amount below zero.
    """
    try:
        amount = decode_quantity(raw, where)
    except FieldError as error:
        raise ValueError(str(error)) from None
    if amount.is_negative:
        raise ValueError(f"{where}: an amount below zero")
    return min(amount.whole_units, INT64_MAX)
