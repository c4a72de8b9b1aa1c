"""Serving with a certificate, as the webhook and the controller do."""

import asyncio
from dataclasses import replace
from random import Random
from typing import Protocol

from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.serving.server import HttpServer
from bursar.adapters.serving.tls.channel import FindContext
from bursar.adapters.serving.tls.client_authority import ClientAuthority
from bursar.adapters.serving.tls.newest_context import NewestContext
from bursar.adapters.serving.tls.profile import DEFAULT_PROFILE, TlsProfile
from bursar.adapters.serving.tls.secret_certificate import SecretCertificate
from bursar.adapters.serving.tls.serving_certificate import ServingCertificate
from bursar.adapters.telemetry.certificates.served import ServedCertificate
from bursar.app.certificates.secrets import observe_secret
from bursar.app.cluster.observe import Watched
from bursar.app.cluster.ports import Key
from bursar.app.cluster.time_limit import end
from bursar.app.log import Log
from bursar.cli.errors.exit_codes import BadInputError
from bursar.cli.processes.options.process import TlsSource
from bursar.entry.process import start_server


class Certificate(Protocol):
    """A certificate that may change while it is served."""

    @property
    def newest(self) -> NewestContext: ...

    async def wait_for_context(self) -> FindContext: ...

    async def watch(self) -> None: ...


def open_certificate(
    source: TlsSource,
    namespace: str,
    cluster: Watched,
    random: Random,
    profile: TlsProfile = DEFAULT_PROFILE,
) -> ServingCertificate | SecretCertificate:
    """The certificate of a folder, or of a Secret in the namespace of this installation."""
    if not source.secret:
        return ServingCertificate(source.folder, clock=SYSTEM_CLOCK, profile=profile)
    key = Key(namespace, source.secret)
    informer = observe_secret(cluster, SYSTEM_CLOCK, random, key)
    return SecretCertificate(informer, profile=profile)


def with_clients(profile: TlsProfile, file: str) -> TlsProfile:
    """The profile, with the CAs of client certificates in a file. Raises `BadInputError`."""
    if not file:
        return profile
    try:
        return replace(profile, clients=ClientAuthority(file, clock=SYSTEM_CLOCK))
    except OSError as error:
        raise BadInputError(f"--client-ca: {file}: {error.strerror}") from None
    except ValueError as error:
        raise BadInputError(f"--client-ca: {file}: {error}") from None


async def follow_clients(profile: TlsProfile, certificate: Certificate) -> None:
    """Use the CAs of client certificates as soon as their file changes, until cancelled."""
    if profile.clients is not None:
        await profile.clients.watch(certificate.newest.renew)


def served(certificate: Certificate) -> ServedCertificate:
    """What metrics read of a certificate."""
    newest = certificate.newest
    return ServedCertificate(not_after=newest.not_after, loads=newest.loads, invalid=newest.invalid)


async def listen(
    server: HttpServer,
    certificate: Certificate,
    address: tuple[str, int],
    *,
    log: Log,
    delay_seconds: float = 0,
) -> None:
    """Serve until cancelled and for the delay, then finish the requests in flight.

    Raises `BadInputError`.
    """
    watching = asyncio.create_task(certificate.watch())
    try:
        find_context = await certificate.wait_for_context()
        log.info("listening", address=await start_server(server, address, find_context))
        try:
            await watching
        finally:
            await server.stop(delay_seconds=delay_seconds)
    finally:
        await end(watching)
