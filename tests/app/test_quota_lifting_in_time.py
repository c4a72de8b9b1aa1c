"""Lifting a gate, by one who may stop being the leader at any moment."""

import asyncio
from random import Random

from bursar.app.cluster.ports import Key, Patch, Resource
from bursar.app.quota.lifting import GateLifter
from support.builders.quota_books import a_row
from support.virtual_time import MachineClock, run


class Recorder:
    """Takes every write."""

    def __init__(self) -> None:
        self.written: list[Key] = []

    async def patch(self, resource: Resource, key: Key, patch: Patch) -> bytes:
        del resource, patch
        self.written.append(key)
        return b""


def lifted_while(*answers: bool) -> tuple[object, list[Key]]:
    """Lift a gate while the question whether we may is answered like this, and no from then on."""
    left = list(answers)

    async def main() -> tuple[object, list[Key]]:
        writer = Recorder()
        lifter = GateLifter(
            writer,
            MachineClock(),
            random=Random(1),  # noqa: S311 - a seed
            may_write=lambda: left.pop(0) if left else False,
            write_seconds=1,
        )
        async with asyncio.timeout(60):
            return await lifter.lift(a_row("a/web")), writer.written

    return run(main())


def test_nothing_is_written_by_one_who_may_not():
    assert lifted_while(False) == (None, [])


def test_one_who_lost_the_right_before_the_request_began_does_not_send_it():
    assert lifted_while(True, False) == (None, [])


def test_one_who_may_writes_once():
    lifted, written = lifted_while(True, True)

    assert lifted is not None
    assert written == [Key("a", "web")]
