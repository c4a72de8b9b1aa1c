"""An informer on a scripted cluster, and an auditor that checks each change against the last."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from bursar.app.cluster.informer.changes import (
    Change,
    Changes,
    Deleted,
    Relisted,
    Synced,
    Upserted,
)
from bursar.app.cluster.informer.informer import Informer, InformerRules
from bursar.app.cluster.ports import Key
from support.cluster.scripted_cluster import (
    THINGS,
    ScriptedCluster,
    Thing,
    decode_thing,
    identify_thing,
    locate_thing,
    seeded,
)
from support.virtual_time import MachineClock


class Auditor:
    """Applies changes to books of his own, and objects to any that does not follow."""

    def __init__(self) -> None:
        self.books = dict[Key, Thing]()
        self.told: set[tuple[str, str]] = set()
        self.deleted: set[str] = set()
        self.changes: list[Change[Thing]] = []

    def hear(self, change: Change[Thing]) -> None:
        self.changes.append(change)
        if isinstance(change, Upserted):
            new, held = change.new, self.books.get(change.new.key)
            assert change.old == held, "old is what was told before"
            assert held is None or held.uid == new.uid, "another object took the name"
            assert (new.uid, new.resource_version) not in self.told, "told twice"
            assert new.uid not in self.deleted, "came back from the dead"
            self.told.add((new.uid, new.resource_version))
            self.books[new.key] = new
        elif isinstance(change, Deleted):
            assert self.books.pop(change.last.key, None) == change.last, "deleted what was not told"
            self.deleted.add(change.last.uid)

    def allow_resurrection(self) -> None:
        """The cluster was restored from a backup: what was told before may be told again."""
        self.told.clear()
        self.deleted.clear()

    @property
    def story(self) -> list[str]:
        """The changes in short: `+name`, `~name`, `-name` (`?` if inferred), and the lists."""
        return [_short(change) for change in self.changes]


def _short(change: Change[Thing]) -> str:
    match change:
        case Upserted(old=None, new=new):
            return f"+{new.key.name}"
        case Upserted(new=new):
            return f"~{new.key.name}"
        case Deleted(last=last, is_inferred=is_inferred):
            return f"-{last.key.name}{'?' if is_inferred else ''}"
        case Relisted():
            return "relisted"
        case Synced():
            return "synced"


class Session:
    def __init__(self, cluster: ScriptedCluster, rules: InformerRules, seed: int = 0) -> None:
        self.cluster = cluster
        self.clock = MachineClock()
        self.auditor = Auditor()
        self.informer: Informer[Thing] = Informer(
            cluster,
            cluster,
            clock=self.clock,
            random=seeded(seed),
            resource=THINGS,
            decode=decode_thing,
            identify=identify_thing,
            locate=locate_thing,
            rules=rules,
        )

    async def read(self, changes: Changes[Thing], pace: Any = None) -> None:
        async for change in changes:
            self.auditor.hear(change)
            if pace is not None and (seconds := pace()):
                await self.clock.sleep(seconds)

    async def pass_time(self, seconds: float = 5.0) -> None:
        await self.clock.sleep(seconds)

    def check(self) -> None:
        """Cache, cluster and books say the same, unreadable objects aside."""
        cluster, informer = self.cluster, self.informer
        held = dict(informer.snapshot())

        assert len(held) == len(informer)
        assert held == self.auditor.books
        assert {k: v for k, v in held.items() if k not in cluster.unreadable} == cluster.truth
        assert informer.suspects == cluster.unreadable
        for key in held.keys() & cluster.unreadable:
            assert held[key].uid == cluster.objects[key].uid
        alive = {stored.uid for stored in cluster.objects.values()}
        assert {uid for uid, _ in self.auditor.told} - self.auditor.deleted <= alive


@asynccontextmanager
async def following(
    cluster: ScriptedCluster, *, pace: Any = None, seed: int = 0, **rules: Any
) -> AsyncIterator[Session]:
    """A running informer and its auditor; both are gone afterwards, and so are all watches."""
    session = Session(cluster, InformerRules(**rules), seed)
    reading = asyncio.create_task(session.read(session.informer.changes(), pace))
    running = asyncio.create_task(session.informer.run())
    try:
        yield session
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await reading
        assert cluster.watches == 0
