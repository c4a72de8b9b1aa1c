"""The options of `bursar agent`, and the settings made of them."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from ipaddress import ip_address
from typing import Any, Final

import click

from bursar.adapters.kubelet.access import KubeletTrust
from bursar.adapters.kubelet.endpoint import READ_ONLY_PORT
from bursar.adapters.node.kubelet_socket import SocketLimits
from bursar.adapters.node.socket_file import (
    SocketFileError,
    SocketPlace,
    check_own_path,
    check_path,
    is_same,
)
from bursar.app.devices.defaults import HTTP_PORT, KUBELET_FOLDER, SOCKET, SOCKET_FOLDER, PodsFrom
from bursar.app.devices.node_pods import FreshnessRules
from bursar.app.devices.proxy import ProxyRules
from bursar.app.devices.rate_limit import RateRules
from bursar.cli.options import duration, flag, one_of, path, shown, together
from bursar.cli.processes.options.process import (
    ClusterChoice,
    MetricsAuth,
    given_options,
    metrics_auth_option,
    process_cluster_options,
)
from bursar.cli.processes.telemetry.log_options import LogSettings, log_from, log_options
from bursar.cli.storage.disk_options import DiskSettings, disk_from, disk_options
from bursar.core.devices.resolve import Rules, Trust
from bursar.core.model.quantity import Quantity, QuantityError

BIND: Final = f"127.0.0.1:{HTTP_PORT}"
MESSAGE_MAX: Final = "16Mi"
"""Multus accepts no larger message."""
MESSAGE_LEAST: Final = 1024
"""Kubelet's entry for a single pod can already be larger than this."""
GROUP_MAX: Final = 2**32 - 2
"""The next number is `(gid_t) -1`, which means no group."""
NOT_IN_COMPAT: Final = ("trust", "inventory", "schedulers", "share_suffix", "sources_file")
"""Options without a counterpart in Koordinator's proxy, by parameter name."""

_HOST: Final = re.compile(r"[A-Za-z0-9_][-A-Za-z0-9_.]{0,252}")


class Mode(Enum):
    IMPROVED = "improved"
    COMPAT = "compat"


class InventoryUse(Enum):
    """Whether the agent gives out devices that it cannot check, because it has no inventory."""

    REQUIRED = "required"
    OPTIONAL = "optional"


class WhenUnknown(Enum):
    """What the agent answers when it knows no pods, or only stale ones."""

    KUBELET = "kubelet"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    node: str
    place: SocketPlace
    kubelet_socket: str
    kubelet: SocketLimits
    pods_from: PodsFrom
    kubelet_address: str
    kubelet_port: int
    """0: the port in the Node object, else 10250."""
    read_only_port: int
    trust_in_kubelet: KubeletTrust
    freshness: FreshnessRules
    proxy: ProxyRules
    rules: Rules
    rate: RateRules
    is_compat: bool
    sources_file: str
    """Empty: Koordinator is the only allocator."""
    bind: tuple[str, int] | None
    """None: do not listen."""
    metrics_auth: MetricsAuth
    tells_events: bool
    disk: DiskSettings | None
    """None: do not account for local ephemeral storage."""
    cluster: ClusterChoice
    log: LogSettings


def _octal(_: click.Context, __: click.Parameter, text: str) -> int:
    try:
        mode = int(text, 8)
    except ValueError:
        mode = -1
    if not 0 <= mode <= 0o777:
        raise click.BadParameter(f"{text!r}: three octal digits are expected, such as 0660")
    return mode


def _bytes(_: click.Context, __: click.Parameter, text: str) -> int:
    try:
        amount = Quantity.parse(text).whole_units
    except QuantityError as error:
        raise click.BadParameter(str(error)) from None
    if not 0 <= amount < 2**31:
        raise click.BadParameter(f"{text}: between 0 and 2Gi is expected")
    return amount


def _address(_: click.Context, __: click.Parameter, text: str) -> tuple[str, int] | None:
    if not text:
        return None
    # From the right, so that an address of IPv6 needs no brackets: a manifest cannot add them.
    host, port = text.rpartition(":")[::2]
    if not host or not port.isdecimal() or len(port) > 5 or int(port) > 65535:
        raise click.BadParameter(f"host:port is expected, not {text}")
    return host.strip("[]"), int(port)


def _answer_bytes(context: click.Context, parameter: click.Parameter, text: str) -> int:
    amount = _bytes(context, parameter, text)
    if amount < MESSAGE_LEAST:
        raise click.BadParameter(f"{text}: at least 1Ki is expected")
    return amount


def _socket(check: Callable[[str], None]) -> Callable[..., str]:
    def checked(_: click.Context, __: click.Parameter, path: str) -> str:
        try:
            check(path)
        except SocketFileError as error:
            raise click.BadParameter(str(error)) from None
        return path

    return checked


def _group(_: click.Context, __: click.Parameter, text: str | None) -> int | str | None:
    if not text:
        return None
    if not text.isdecimal():
        return text
    if len(text) > len(str(GROUP_MAX)) or int(text) > GROUP_MAX:
        raise click.BadParameter(f"{text}: groups have numbers up to {GROUP_MAX}")
    return int(text)


def _some_time(_: click.Context, __: click.Parameter, seconds: float) -> float:
    if not seconds:
        raise click.BadParameter("more than nothing is expected")
    return seconds


def _host(_: click.Context, __: click.Parameter, text: str) -> str:
    host = text.removeprefix("[").removesuffix("]")
    try:
        ip_address(host)
    except ValueError:
        if text and not _HOST.fullmatch(host):
            problem = "an address or a name is expected; the port is --kubelet-port"
            raise click.BadParameter(f"{text}: {problem}") from None
    return host


agent_options: Final = together(
    shown(
        "--socket",
        f"{SOCKET_FOLDER}/{SOCKET}",
        "Socket that clients such as Multus and dcgm-exporter connect to.",
        type=click.Path(),
        callback=_socket(check_own_path),
    ),
    shown("--socket-mode", "0600", "File mode of the socket, in octal digits.", callback=_octal),
    click.option(
        "--socket-group", callback=_group, help="Group that owns the socket, by name or number."
    ),
    shown(
        "--kubelet-socket",
        f"{KUBELET_FOLDER}/pod-resources/{SOCKET}",
        "Socket of kubelet's own PodResources API.",
        type=click.Path(),
        callback=_socket(check_path),
    ),
    click.option("--node", envvar="NODE_NAME", help="Name of this node. Default: the host's name."),
    one_of(
        "--pods-from",
        PodsFrom.KUBELET,
        "Source of this node's pods: kubelet, its read-only port, or the API server.",
    ),
    click.option(
        "--kubelet-address",
        default="",
        callback=_host,
        help="Address of kubelet. Default: the one in the Node object, else 127.0.0.1.",
    ),
    click.option(
        "--kubelet-port",
        type=click.IntRange(0, 65535),
        default=0,
        help="Port of kubelet. Default: the one in the Node object, else 10250.",
    ),
    shown(
        "--kubelet-read-only-port read_only_port",
        READ_ONLY_PORT,
        "Port of kubelet with --pods-from=kubelet-read-only.",
        type=click.IntRange(1, 65535),
    ),
    path(
        "--kubelet-ca",
        "CA certificates (PEM) of kubelet's serving certificate. Default: the cluster's CA.",
        "",
    ),
    flag("--kubelet-insecure", "Do not verify kubelet's serving certificate."),
    click.option(
        "--kubelet-server-name",
        default="",
        help="Name that kubelet's serving certificate must have. Default: its address.",
    ),
    path(
        "--kubelet-token-file",
        "File with the bearer token for kubelet. Default: the credentials for the API server.",
        "",
    ),
    path("--kubelet-client-cert", "Client certificate (PEM) for kubelet, instead of a token.", ""),
    path("--kubelet-client-key", "Private key (PEM) of --kubelet-client-cert.", ""),
    duration(
        "--kubelet-timeout",
        "3s",
        "How long to wait for kubelet to list its pods.",
        callback=_some_time,
    ),
    duration("--pods-max-age", "1s", "How long a list of pods is used before it is read again."),
    duration("--stale-for", "5m", "How long the last list of pods is used while reading fails."),
    one_of(
        "--when-unknown",
        WhenUnknown.KUBELET,
        "After --stale-for, answer with kubelet's own data, or refuse.",
    ),
    path(
        "--sources sources_file",
        "YAML file that lists the allocators that annotate pods. Default: Koordinator only.",
        "",
    ),
    one_of("--mode", Mode.IMPROVED, "compat: answer as Koordinator's proxy; improved: check more."),
    one_of(
        "--trust",
        Trust.ASKED,
        "Which annotations count: those of pods that request such a device, or any.",
    ),
    one_of(
        "--inventory",
        InventoryUse.REQUIRED,
        "Whether devices are given out while the node's inventory is not known.",
    ),
    click.option(
        *("--scheduler", "schedulers"),
        multiple=True,
        help="Read annotations only of pods with this schedulerName. Repeatable.",
    ),
    flag("--share-suffix", "Number the shares of one GPU: GPU-...::1."),
    flag("--only-with-devices", "Answer only with pods that hold devices."),
    click.option(
        "--trim-above",
        default="0",
        callback=_bytes,
        help="As --only-with-devices, for answers larger than this, such as 4Mi. Default: never.",
    ),
    shown(
        "--max-message",
        MESSAGE_MAX,
        "Maximum size of an answer from kubelet.",
        callback=_answer_bytes,
    ),
    shown(
        "--rate",
        100,
        "Maximum calls per second, as kubelet has it. 0: no limit.",
        type=click.IntRange(0),
    ),
    shown("--burst", 10, "Maximum calls at once within --rate.", type=click.IntRange(1)),
    shown(
        "--bind",
        BIND,
        "Address and port of /metrics, /healthz and /readyz. Empty: do not listen.",
        callback=_address,
    ),
    metrics_auth_option,
    click.option(
        "--events/--no-events",
        default=True,
        help="Record an event on pods with an annotation that cannot be used. Default: on.",
    ),
    disk_options,
    process_cluster_options,
    log_options,
)
"""All options of the agent; the command receives them by name."""


def settings_from(chosen: Mapping[str, Any]) -> AgentSettings:
    """Make settings of the options. Call it while the command's context is active.

    Raises `click.UsageError` if options contradict each other.
    """
    if is_same(chosen["socket"], chosen["kubelet_socket"]):
        problem = "the agent needs a socket of its own, and this is kubelet's (--kubelet-socket)"
        raise click.UsageError(f"--socket: {chosen['socket']}: {problem}")
    is_compat = Mode(chosen["mode"]) is Mode.COMPAT
    if is_compat and (ignored := given_options(*NOT_IN_COMPAT)):
        raise click.UsageError(f"{ignored[0]}: has no effect with --mode=compat")
    return AgentSettings(
        node=chosen["node"] or os.uname().nodename.lower(),
        place=SocketPlace(
            path=chosen["socket"],
            mode=chosen["socket_mode"],
            group=chosen["socket_group"],
        ),
        kubelet_socket=chosen["kubelet_socket"],
        kubelet=SocketLimits(answer_bytes_max=chosen["max_message"]),
        pods_from=PodsFrom(chosen["pods_from"]),
        kubelet_address=chosen["kubelet_address"],
        kubelet_port=chosen["kubelet_port"],
        read_only_port=chosen["read_only_port"],
        trust_in_kubelet=_trust_in_kubelet(chosen),
        freshness=FreshnessRules(
            fresh_s=chosen["pods_max_age"],
            last_good_s=chosen["stale_for"],
            read_s=chosen["kubelet_timeout"],
        ),
        proxy=_proxy_rules(chosen),
        rules=Rules(
            trust=Trust(chosen["trust"]),
            schedulers=frozenset(chosen["schedulers"]),
            needs_inventory=InventoryUse(chosen["inventory"]) is InventoryUse.REQUIRED,
            numbers_shares=chosen["share_suffix"],
        ),
        rate=RateRules(per_second=chosen["rate"], burst=chosen["burst"]),
        is_compat=is_compat,
        sources_file=chosen["sources_file"],
        bind=chosen["bind"],
        metrics_auth=MetricsAuth(chosen["metrics_auth"]),
        tells_events=chosen["events"],
        disk=disk_from(chosen),
        cluster=ClusterChoice(chosen["kubeconfig"], chosen["context"]),
        log=log_from(chosen),
    )


def _trust_in_kubelet(chosen: Mapping[str, Any]) -> KubeletTrust:
    return KubeletTrust(
        authority_file=chosen["kubelet_ca"],
        server_name=chosen["kubelet_server_name"],
        token_file=chosen["kubelet_token_file"],
        certificate_file=chosen["kubelet_client_cert"],
        key_file=chosen["kubelet_client_key"],
        is_insecure=chosen["kubelet_insecure"],
    )


def _proxy_rules(chosen: Mapping[str, Any]) -> ProxyRules:
    if chosen["stale_for"] < chosen["pods_max_age"]:
        raise click.UsageError("--stale-for: at least as long as --pods-max-age is expected")
    return ProxyRules(
        fails_closed=WhenUnknown(chosen["when_unknown"]) is WhenUnknown.REFUSE,
        fills_list_only=Mode(chosen["mode"]) is Mode.COMPAT,
        # Every answer is longer than one byte that has a pod in it.
        trims_above_bytes=1 if chosen["only_with_devices"] else chosen["trim_above"],
    )
