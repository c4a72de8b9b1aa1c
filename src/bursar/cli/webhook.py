"""`bursar webhook`: answer the admission reviews of an API server until told to end."""

import asyncio
import os
import ssl
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom
from typing import Any, Final

import click

from bursar.adapters.admission import peerpods
from bursar.adapters.admission.desk_client import DeskClient, DeskSettings
from bursar.adapters.admission.peerpods import PeerPodCounts, peer_pod_routes
from bursar.adapters.admission.reviewing import Reviewer
from bursar.adapters.admission.routes import ReviewCounts, webhook_routes
from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.kube.client import KubeClient
from bursar.adapters.kube.config import SERVICE_ACCOUNT_FOLDER, ClusterAccess
from bursar.adapters.serving.server import BODY_BYTES_MAX, HttpsServer, ServerLimits
from bursar.adapters.serving.serving_pair import ServingPair
from bursar.app.admission import CONTROLLER, Installation, WhenUnreachable
from bursar.app.admission_quotas import QuotaCheck
from bursar.cli.ending import OK, BadInputError
from bursar.cli.peerpod_options import (
    catalogue_options,
    settings_from,
    sizing_options,
    types_from,
)
from bursar.cli.process import address_of, cluster_access, listen, own_namespace, until_told
from bursar.core.peerpods.capacity import VM_RESOURCE
from bursar.core.peerpods.settings import Mode, PeerPodSettings

TLS_FOLDER: Final = "/etc/bursar/tls"
BIND: Final = "0.0.0.0:8443"
TARGET_CLASSES: Final = "TARGET_RUNTIMECLASS"
TARGET_RESOURCE: Final = "POD_VM_EXTENDED_RESOURCE"
TLS_VERSION: Final = "TLS_MIN_VERSION"
TLS_SUITES: Final = "TLS_CIPHER_SUITES"
REFUSAL_BYTES: Final = 2**20
"""Beyond the limit, how much is read so that a review can say that it is too much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    bind: str
    tls_folder: str
    installation: Installation
    when_unreachable: WhenUnreachable
    body_bytes_max: int
    desk: DeskSettings
    peer_pods: PeerPodSettings
    tls: "TlsProfile"


@click.command(short_help="Gate new pods, rewrite peer pods and check quotas for an API server.")
@click.option("--bind", default=BIND, show_default=True, help="Address and port to listen on.")
@click.option(
    "--tls-dir",
    "tls_folder",
    default=TLS_FOLDER,
    show_default=True,
    type=click.Path(),
    help="Folder with tls.crt and tls.key, followed as they change.",
)
@click.option("--namespace", help="Where Bursar is installed. Default: that of the pod, or aaq.")
@click.option("--kubeconfig", type=click.Path(), help="Default: the service account of the pod.")
@click.option("--context", default="", help="Of the kubeconfig.")
@click.option(
    "--resize-when-unreachable",
    "when_unreachable",
    type=click.Choice([each.value for each in WhenUnreachable]),
    default=WhenUnreachable.DENY.value,
    show_default=True,
    help="What becomes of growing pods while no controller can be asked.",
)
@click.option(
    "--max-body",
    "body_bytes_max",
    type=click.IntRange(min=1024),
    default=BODY_BYTES_MAX,
    show_default=True,
    help="Largest review taken, in bytes.",
)
@click.option("--leader-ca", type=click.Path(), help="Default: ca.crt in the --tls-dir.")
@click.option("--token-file", type=click.Path(), help="Default: that of the service account.")
@click.option(
    "--mode",
    type=click.Choice([mode.value for mode in Mode]),
    default=Mode.EFFECTIVE.value,
    show_default=True,
    help="How peer pods are sized.",
)
@sizing_options
@click.option("--vm-resource", envvar=TARGET_RESOURCE, help=f"What asks for a VM: {VM_RESOURCE}")
@click.option("--keep", multiple=True, help="A resource that stays on the worker. Repeatable.")
@click.option("--default-mem", is_flag=True, help="Write the annotation default_mem as well.")
@catalogue_options
def webhook(  # noqa: PLR0913 - one parameter for each option
    *,
    bind: str,
    tls_folder: str,
    namespace: str | None,
    kubeconfig: str | None,
    context: str,
    when_unreachable: str,
    body_bytes_max: int,
    leader_ca: str | None,
    token_file: str | None,
    **chosen: object,
) -> int:
    """Answer admission reviews over HTTPS, until SIGTERM or Ctrl-C.

    New pods are put behind a scheduling gate, only the controller may lift it,
    and quotas are checked before they are stored. Peer pods are rewritten so
    that their VM is paid for, and not the worker.
    """
    address_of(bind)
    home = Installation(namespace or own_namespace())
    settings = Settings(
        bind=bind,
        tls_folder=tls_folder,
        installation=home,
        when_unreachable=WhenUnreachable(when_unreachable),
        body_bytes_max=body_bytes_max,
        desk=DeskSettings(
            namespace=home.namespace,
            token_file=token_file or str(Path(SERVICE_ACCOUNT_FOLDER, "token")),
            authority_file=leader_ca or str(Path(tls_folder, "ca.crt")),
            server_name=f"{CONTROLLER}.{home.namespace}.svc",
        ),
        peer_pods=peer_pod_settings(chosen),
        tls=tls_profile(os.environ.get(TLS_VERSION, ""), os.environ.get(TLS_SUITES, "")),
    )
    access = cluster_access(kubeconfig, context)
    asyncio.run(until_told(_serve(settings, access)))
    _say("ended")
    return OK


def peer_pod_settings(chosen: Mapping[str, Any]) -> PeerPodSettings:
    """Options go before the environment; an empty variable is as good as none."""
    named = [each.strip() for each in os.environ.get(TARGET_CLASSES, "").split(",")]
    options = {
        **chosen,
        "runtime_class": chosen["runtime_class"] or tuple(filter(None, named)),
        "vm_resource": chosen["vm_resource"] or VM_RESOURCE,
    }
    types = types_from(options) if options["catalogue"] else ()
    return settings_from(options, Mode(options["mode"]), catalogue=types)


def _say(line: str) -> None:
    click.echo(f"bursar webhook: {line}", err=True)


async def _serve(settings: Settings, access: ClusterAccess) -> None:
    pair = ProfiledPair(settings.tls_folder, settings.tls)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            KubeClient(access, clock=SYSTEM_CLOCK, rng=SystemRandom())
        )
        desk = await stack.enter_async_context(DeskClient(client, settings.desk))
        await listen(_server(settings, client, desk), pair, settings.bind, say=_say)


def _server(settings: Settings, client: KubeClient, desk: DeskClient) -> HttpsServer:
    reviewer = Reviewer(
        installation=settings.installation,
        quotas=QuotaCheck(client, clock=SYSTEM_CLOCK, random=SystemRandom()),
        desk=desk,
        when_unreachable=settings.when_unreachable,
    )
    counts, peer_counts = ReviewCounts(), PeerPodCounts()
    routes = webhook_routes(
        reviewer.answer,
        counts=counts,
        metrics=lambda: counts.exposition() + peer_counts.exposition(),
        body_bytes_max=settings.body_bytes_max,
    )
    largest = max(settings.body_bytes_max, peerpods.BODY_BYTES_MAX + REFUSAL_BYTES)
    return HttpsServer(
        {**routes, **peer_pod_routes(settings.peer_pods, peer_counts)},
        clock=SYSTEM_CLOCK,
        limits=ServerLimits(body_bytes_max=largest),
    )


# ------------------------------------------------------------------ TLS as upstream is told

_RULED_OUT: Final = ("VersionTLS10", "VersionTLS11")
_VERSIONS: Final = {
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}
SUITES: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
}
"""Names that Go knows, and what OpenSSL calls them. RC4 and 3DES are not in OpenSSL any more."""
SUITES_OF_13: Final = frozenset(
    {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
)
"""Taken and without effect, as upstream: neither Go nor Python lets anybody choose among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsProfile:
    """What is asked of connections beyond what is usual."""

    least: ssl.TLSVersion | None = None
    suites: tuple[str, ...] = ()
    """Names by OpenSSL, for TLS 1.2; none for the usual ones."""

    def apply(self, context: ssl.SSLContext) -> None:
        if self.least is not None:
            context.minimum_version = self.least
        if self.suites:
            context.set_ciphers(":".join(self.suites))


def tls_profile(version: str, suites: str) -> TlsProfile:
    """Read upstream's two settings; what is wrong is said in its words."""
    version = version.strip()
    wanted = [name for each in suites.split(",") if (name := each.strip())]
    if not version and not wanted:
        return TlsProfile()
    if version in _RULED_OUT:
        raise BadInputError(
            f'invalid minVersion "{version}": TLS 1.0 and 1.1 are not supported, use VersionTLS12 '
            "or VersionTLS13"
        )
    least = _VERSIONS.get(version or "VersionTLS12")
    if least is None:
        raise BadInputError(f'invalid minVersion "{version}": unknown tls version "{version}"')
    if least is ssl.TLSVersion.TLSv1_3 and wanted:
        raise BadInputError(
            "cipherSuites may not be specified when minVersion is VersionTLS13: its suites cannot "
            "be chosen"
        )
    return TlsProfile(least=least, suites=_suites(wanted))


def _suites(wanted: list[str]) -> tuple[str, ...]:
    valid = sorted({*SUITES, *SUITES_OF_13})
    for name in wanted:
        if name not in valid:
            raise BadInputError(
                f"invalid cipherSuites: Cipher suite {name} not supported or doesn't exist; "
                f"valid names: [{' '.join(valid)}]"
            )
    return tuple(SUITES[name] for name in wanted if name in SUITES)


class ProfiledPair(ServingPair):
    """A certificate that is shown on connections of a profile, also after it was replaced."""

    def __init__(self, folder: str, profile: TlsProfile) -> None:
        super().__init__(folder, clock=SYSTEM_CLOCK, report=_say)
        self._profile = profile

    def _load(self) -> ssl.SSLContext:
        context = super()._load()
        self._profile.apply(context)
        return context
