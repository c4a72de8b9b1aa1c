"""Health of the agent by part: its socket, kubelet's socket, the pods, the inventory."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

CONNECT_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    problem: str = ""
    """What is wrong with this part; empty if nothing is."""
    remark: str = ""

    def __str__(self) -> str:
        """One line.

        >>> print(Part("pods", remark="0.4 s old"), Part("kubelet", "refused"), sep="; ")
        pods: OK, 0.4 s old; kubelet: refused
        """
        said = self.problem or (f"OK, {self.remark}" if self.remark else "OK")
        return f"{self.name}: {said}"


@dataclass(frozen=True, slots=True)
class Health:
    parts: Sequence[Part]

    @property
    def is_good(self) -> bool:
        return not any(part.problem for part in self.parts)

    def __str__(self) -> str:
        return "".join(f"{part}\n" for part in self.parts)


async def socket_part(name: str, path: str) -> Part:
    """Check that a process listens on a socket. No call is made, so no rate limit is used up."""
    try:
        async with asyncio.timeout(CONNECT_S):
            _, writer = await asyncio.open_unix_connection(path)
    except TimeoutError:
        return Part(name, f"no connection to {path} within {CONNECT_S:g} s")
    except OSError as error:
        return Part(name, f"{path}: {(error.strerror or str(error)).lower()}")
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return Part(name)


def pods_part(*, is_usable: bool, age_s: float | None, last_error: str) -> Part:
    """Stale pods are usable for a while; the remark tells their age."""
    if not is_usable:
        return Part("pods", last_error or "not read yet")
    assert age_s is not None
    aged = f"{age_s:.1f} s old"
    return Part("pods", remark=f"{aged}; {last_error}" if last_error else aged)


def inventory_part(count: int | None, *, is_followed: bool) -> Part:
    """A node without an inventory is healthy: device ids are then not checked."""
    if count is not None:
        return Part("inventory", remark=f"{count} devices")
    return Part("inventory", remark="none known" if is_followed else "not followed")
