"""`bursar webhook`: answer the admission reviews of an API server until told to end."""

import asyncio
import os
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom
from typing import Any, Final

import click

from bursar.adapters.admission.desk_client import DeskClient, DeskSettings
from bursar.adapters.admission.peerpods import PeerPodCounts, peer_pod_routes
from bursar.adapters.admission.reviewing import Reviewer
from bursar.adapters.admission.routes import ReviewCounts, webhook_routes
from bursar.adapters.clock import SYSTEM_CLOCK
from bursar.adapters.kube.access import SERVICE_ACCOUNT_FOLDER, ClusterAccess
from bursar.adapters.kube.client import KubeClient
from bursar.adapters.serving.server import BODY_BYTES_MAX, HttpsServer
from bursar.adapters.serving.serving_pair import ServingPair
from bursar.adapters.serving.tls_profile import TlsProfile, tls_profile
from bursar.app.admission.pods import CONTROLLER, Installation, WhenUnreachable
from bursar.app.admission.quotas import QuotaCheck
from bursar.cli.exit_codes import OK, BadInputError
from bursar.cli.peerpods.options import (
    catalogue_options,
    settings_from,
    sizing_options,
    types_from,
)
from bursar.cli.processes.process import address_of, cluster_access, listen, own_namespace
from bursar.cli.processes.until_told import until_told
from bursar.core.peerpods.capacity import VM_RESOURCE
from bursar.core.peerpods.settings import Mode, PeerPodSettings

TLS_FOLDER: Final = "/etc/bursar/tls"
BIND: Final = "0.0.0.0:8443"
TARGET_CLASSES: Final = "TARGET_RUNTIMECLASS"
TARGET_RESOURCE: Final = "POD_VM_EXTENDED_RESOURCE"
TLS_VERSION: Final = "TLS_MIN_VERSION"
TLS_SUITES: Final = "TLS_CIPHER_SUITES"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    bind: str
    tls_folder: str
    installation: Installation
    when_unreachable: WhenUnreachable
    body_bytes_max: int
    desk: DeskSettings
    peer_pods: PeerPodSettings
    tls: TlsProfile


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
        tls=_tls_profile(),
    )
    access = cluster_access(kubeconfig, context)
    asyncio.run(until_told(_serve(settings, access)))
    _say("ended")
    return OK


def _tls_profile() -> TlsProfile:
    try:
        return tls_profile(os.environ.get(TLS_VERSION, ""), os.environ.get(TLS_SUITES, ""))
    except ValueError as error:
        raise BadInputError(str(error)) from None


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
    pair = ServingPair(settings.tls_folder, clock=SYSTEM_CLOCK, report=_say, profile=settings.tls)
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
    every = {**routes, **peer_pod_routes(settings.peer_pods, peer_counts)}
    return HttpsServer(every, clock=SYSTEM_CLOCK)
