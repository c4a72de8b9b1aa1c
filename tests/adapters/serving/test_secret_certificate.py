"""The certificate of a Secret is served as soon as the watch shows it; a bad one never is."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.memory.store import MemoryCluster
from bursar.adapters.serving.tls.channel import FindContext
from bursar.adapters.serving.tls.secret_certificate import SecretCertificate
from bursar.adapters.serving.tls.trial_handshake import try_handshake
from bursar.adapters.x509.certificates import Certificates
from bursar.app.certificates.ports import KeyPair
from bursar.app.certificates.secrets import new_secret, observe_secret, pair_data
from bursar.app.cluster.kinds import NAMESPACES, SECRETS
from bursar.app.cluster.ports import Key, Patch, PatchKind
from bursar.app.cluster.time_limit import end
from support.until import until

KEY = Key("aaq", "bursar-tls")
X509 = Certificates()
NOW = SYSTEM_CLOCK.now().replace(microsecond=0)
HOUR = timedelta(hours=1)
CA, OTHER_CA = (X509.make_authority(NOW - HOUR, NOW + 9 * HOUR) for _ in range(2))
ONE, TWO = (X509.make_pair(CA, ["localhost"], NOW - HOUR, NOW + hours * HOUR) for hours in (1, 2))
STRANGE = X509.make_pair(OTHER_CA, ["localhost"], NOW - HOUR, NOW + HOUR)


class World:
    def __init__(self) -> None:
        self.cluster = MemoryCluster(SYSTEM_CLOCK, source=Random(1))  # noqa: S311 - a seed
        informer = observe_secret(self.cluster, SYSTEM_CLOCK, Random(1), KEY)  # noqa: S311
        self.certificate = SecretCertificate(informer)

    async def put(self, pair: KeyPair, authorities: bytes = CA.certificate) -> None:
        body = new_secret(KEY.name, "kubernetes.io/tls", pair_data(pair, authorities))
        patch = Patch(kind=PatchKind.APPLY, body=body, field_manager="test", is_forced=True)
        await self.cluster.patch(SECRETS, KEY, patch)

    async def loads(self, count: int) -> None:
        newest = self.certificate.newest
        await until(lambda: newest.loads == count, lambda: f"{newest.loads} loads, not {count}")

    async def refuses(self, count: int) -> None:
        await until(lambda: self.certificate.newest.invalid == count)


@contextlib.asynccontextmanager
async def watching() -> AsyncIterator[World]:
    world = World()
    await world.cluster.create(NAMESPACES, {"metadata": {"name": KEY.namespace}})
    task = asyncio.create_task(world.certificate.watch())
    try:
        yield world
    finally:
        await end(task)


def descriptors() -> int:
    """How many files this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def shown(find_context: FindContext) -> object:
    """When the certificate that a client is shown expires."""
    return try_handshake(find_context(), CA.certificate.decode())


@pytest.fixture(autouse=True)
def _every_level(caplog):
    caplog.set_level("INFO")


async def test_the_server_waits_for_the_secret_and_uses_each_new_pair(caplog):
    async with watching() as world:
        waiting = asyncio.create_task(world.certificate.wait_for_context())
        await until(lambda: caplog.messages)
        assert caplog.records[0].fields["error"] == "the Secret does not exist"
        await world.put(ONE)
        find_context = await waiting
        assert shown(find_context) == NOW + HOUR
        assert world.certificate.newest.not_after == NOW + HOUR

        await world.put(TWO)
        await world.loads(2)
        assert shown(find_context) == NOW + 2 * HOUR
        assert caplog.messages[1:] == ["a certificate was read", "a new certificate"]


@pytest.mark.parametrize(
    ("pair", "authorities"),
    [
        (KeyPair(certificate=b"", key=b""), CA.certificate),
        (KeyPair(certificate=b"x", key=b"x"), CA.certificate),
        (KeyPair(certificate=TWO.certificate, key=ONE.key), CA.certificate),
        (STRANGE, CA.certificate),
        (TWO, b"garbage"),
        (TWO, b"\xff\x00"),
        (TWO, OTHER_CA.certificate),
    ],
    ids=["empty", "garbage", "another key", "stranger", "no CA", "no text", "another CA"],
)
async def test_an_invalid_pair_is_counted_and_the_last_one_stays(pair, authorities, caplog):
    async with watching() as world:
        await world.put(ONE)
        find_context = await world.certificate.wait_for_context()
        await world.put(pair, authorities)
        await world.refuses(1)

        assert shown(find_context) == NOW + HOUR
        assert world.certificate.authorities == CA.certificate.decode()
        assert caplog.records[-1].fields["reason"] == "the one before stays in use"
        assert "PRIVATE" not in caplog.text
        await world.put(TWO)
        await world.loads(2)
        assert shown(find_context) == NOW + 2 * HOUR


async def test_new_cas_are_trusted_without_a_new_pair():
    both = OTHER_CA.certificate + CA.certificate
    async with watching() as world:
        await world.put(ONE)
        await world.certificate.wait_for_context()
        await world.put(ONE, both)
        await until(lambda: world.certificate.authorities == both.decode())
        assert world.certificate.newest.loads == 1

        await world.put(ONE, b"garbage")
        await world.refuses(1)
        assert world.certificate.authorities == both.decode()


async def test_without_a_ca_every_pair_that_fits_is_used():
    """cert-manager stores no ca.crt for public CAs."""
    async with watching() as world:
        await world.put(STRANGE, b"")
        await world.certificate.wait_for_context()

        assert world.certificate.newest.not_after == NOW + HOUR
        assert world.certificate.authorities == ""


async def test_a_deleted_secret_and_broken_watches_change_nothing(caplog):
    async with watching() as world:
        await world.put(ONE)
        find_context = await world.certificate.wait_for_context()
        await world.cluster.delete(SECRETS, KEY)
        await until(lambda: "the Secret was deleted" in caplog.text)
        assert shown(find_context) == NOW + HOUR

        await world.put(ONE)
        world.cluster.cut_watches(is_fault=True)
        await world.put(TWO)
        await world.loads(2)
        assert shown(find_context) == NOW + 2 * HOUR


async def test_a_change_of_labels_loads_nothing():
    async with watching() as world:
        await world.put(ONE)
        await world.certificate.wait_for_context()
        labels = {"metadata": {"labels": {"a": "b"}}}
        await world.cluster.patch(SECRETS, KEY, Patch(kind=PatchKind.MERGE, body=labels))
        await world.put(TWO)
        await world.loads(2)


async def test_no_descriptor_stays_open():
    async with watching() as world:
        await world.put(ONE)
        await world.certificate.wait_for_context()
        before = descriptors()
        for number in range(2, 8):
            await world.put(TWO if number % 2 == 0 else ONE)
            await world.loads(number)

        assert descriptors() <= before
