"""Suggestions for amounts that are not written as Kubernetes demands: `512MB`, `0.5 GB`."""

import re
from typing import Final

from bursar.core.model.quantity import Quantity, QuantityError

_BYTES: Final = re.compile(r"([0-9]+(?:[.,][0-9]+)?)\s*([kmgtp])(?:i?b|i)", re.IGNORECASE)
_LETTER: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)([Kgtp])")
_SPACED: Final = re.compile(r"([0-9.]+)\s+([A-Za-z]+)")
_COMMA: Final = re.compile(r"[0-9]+,[0-9]+[A-Za-z]*")


def likely_quantity(text: str) -> str | None:
    """The quantity that an invalid text probably means; None if it cannot be guessed.

    >>> likely_quantity("512MB"), likely_quantity("0.5gb"), likely_quantity("1,5Gi")
    ('512Mi', '512Mi', '1536Mi')
    >>> likely_quantity("2 Gi"), likely_quantity("200K"), likely_quantity("much")
    ('2Gi', '200Ki', None)
    """
    if (found := _BYTES.fullmatch(text) or _LETTER.fullmatch(text)) is not None:
        meant = f"{found.group(1)}{found.group(2).upper()}i"
    elif _SPACED.fullmatch(text) or _COMMA.fullmatch(text):
        meant = "".join(text.split())
    else:
        return None
    try:
        return Quantity.parse(meant.replace(",", ".")).canonical
    except QuantityError:
        return None
