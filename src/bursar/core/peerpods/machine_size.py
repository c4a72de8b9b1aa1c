"""The size of a peer pod's VM, as its annotations tell it.

A size is a whole number: the cloud-api-adaptor reads any other text as zero.
"""

import re
from collections.abc import Iterable
from typing import Final

from bursar.core.model.numbers.int64 import INT64_MAX, INT64_MIN
from bursar.core.peerpods.instances import MachineSize

_DIGITS: Final = re.compile(r"[0-9]{0,19}")


def whole_number(text: str) -> int | None:
    """A size as the adaptor reads it; None for a text that the adaptor reads as zero."""
    digits = text[1:] if text.startswith(("+", "-")) else text
    # Leading zeros are cut first. A pattern for them would try each length of a long text, and
    # `int` refuses more than 4300 digits, even if most of them are leading zeros.
    significant = digits.lstrip("0")
    if not digits or not _DIGITS.fullmatch(significant):
        return None
    count = int(significant or "0") * (-1 if text.startswith("-") else 1)
    return count if INT64_MIN <= count <= INT64_MAX else None


def machine_size(size: Iterable[str]) -> MachineSize:
    """Annotated vCPUs, MiB of memory and GPUs, as the adaptor reads them."""
    vcpus, memory, gpus = (whole_number(text) or 0 for text in size)
    return MachineSize(vcpus=vcpus, memory_mib=memory, gpus=gpus)
