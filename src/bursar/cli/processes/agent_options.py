"""The options of `bursar agent`, and what they mean together."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from ipaddress import ip_address
from typing import Any, Final

import click
from click.core import ParameterSource

from bursar.adapters.kube.kubelet_access import KubeletTrust
from bursar.adapters.kube.kubelet_endpoint import READ_ONLY_PORT
from bursar.adapters.node.kubelet_socket import KubeletLimits
from bursar.adapters.node.socket_file import (
    SocketFileError,
    SocketPlace,
    check_own_path,
    check_path,
    is_same,
)
from bursar.app.devices.freshness import FreshnessRules
from bursar.app.devices.places import HTTP_PORT, KUBELET_FOLDER, SOCKET, SOCKET_FOLDER, PodsFrom
from bursar.app.devices.proxy import ProxyRules
from bursar.app.devices.rate_limit import RateRules
from bursar.cli.output.durations import Duration
from bursar.core.devices.resolving import Rules, Trust
from bursar.core.model.quantity import Quantity, QuantityError

BIND: Final = f"127.0.0.1:{HTTP_PORT}"
MESSAGE_MAX: Final = "16Mi"
"""What Multus takes at most."""
MESSAGE_LEAST: Final = 1024
"""Kubelet has more to say of a single pod."""
GROUP_MAX: Final = 2**32 - 2
"""The number after it means nobody."""
NOT_IN_COMPAT: Final = {
    "trust": "--trust",
    "schedulers": "--scheduler",
    "share_suffix": "--share-suffix",
    "sources_file": "--sources",
}
"""What Koordinator's proxy has no notion of, so that compat has none either."""

_HOST: Final = re.compile(r"[A-Za-z0-9_][-A-Za-z0-9_.]{0,252}")


class Mode(Enum):
    IMPROVED = "improved"
    COMPAT = "compat"


class WhenUnknown(Enum):
    """What clients get while nothing is known of the pods."""

    KUBELET = "kubelet"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    node: str
    place: SocketPlace
    kubelet_socket: str
    kubelet: KubeletLimits
    pods_from: PodsFrom
    kubelet_address: str
    kubelet_port: int
    """0: as the Node object says, else kubelet's usual one."""
    read_only_port: int
    trust_in_kubelet: KubeletTrust
    freshness: FreshnessRules
    proxy: ProxyRules
    rules: Rules
    rate: RateRules
    is_compat: bool
    sources_file: str
    """Empty: Koordinator's alone."""
    bind: tuple[str, int] | None
    """None to listen nowhere."""
    tells_events: bool


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


def _own_socket(_: click.Context, __: click.Parameter, path: str) -> str:
    try:
        check_own_path(path)
    except SocketFileError as error:
        raise click.BadParameter(str(error)) from None
    return path


def _others_socket(_: click.Context, __: click.Parameter, path: str) -> str:
    try:
        check_path(path)
    except SocketFileError as error:
        raise click.BadParameter(str(error)) from None
    return path


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


def _choices(kind: type[Enum]) -> click.Choice[str]:
    return click.Choice([each.value for each in kind])


_OPTIONS: Final = (
    click.option(
        "--socket",
        default=f"{SOCKET_FOLDER}/{SOCKET}",
        show_default=True,
        type=click.Path(),
        callback=_own_socket,
        help="Where clients ask.",
    ),
    click.option(
        "--socket-mode", default="0600", show_default=True, callback=_octal, help="Of that file."
    ),
    click.option("--socket-group", callback=_group, help="Group of that file, by name or number."),
    click.option(
        "--kubelet-socket",
        default=f"{KUBELET_FOLDER}/pod-resources/{SOCKET}",
        show_default=True,
        type=click.Path(),
        callback=_others_socket,
        help="Where kubelet is asked.",
    ),
    click.option(
        "--node", envvar="NODE_NAME", help="Which node this is. Default: the host's name."
    ),
    click.option(
        "--pods-from",
        type=_choices(PodsFrom),
        default=PodsFrom.KUBELET.value,
        show_default=True,
        help="Who tells which pods the node has.",
    ),
    click.option(
        "--kubelet-address",
        default="",
        callback=_host,
        help="Default: as the Node object says, or 127.0.0.1.",
    ),
    click.option(
        "--kubelet-port",
        type=click.IntRange(0, 65535),
        default=0,
        help="Default: as the Node object says, or 10250.",
    ),
    click.option(
        "--kubelet-read-only-port",
        "read_only_port",
        type=click.IntRange(1, 65535),
        default=READ_ONLY_PORT,
        show_default=True,
        help="For kubelet-read-only.",
    ),
    click.option(
        "--kubelet-ca",
        type=click.Path(),
        default="",
        help="Who vouches for kubelet. Default: the cluster's own authority.",
    ),
    click.option("--kubelet-insecure", is_flag=True, help="Take any certificate of kubelet's."),
    click.option(
        "--kubelet-server-name", default="", help="For whom kubelet's certificate must be."
    ),
    click.option(
        "--kubelet-token-file",
        type=click.Path(),
        default="",
        help="What to show to kubelet. Default: what the API server is shown.",
    ),
    click.option(
        "--kubelet-client-cert",
        type=click.Path(),
        default="",
        help="A client certificate to show instead.",
    ),
    click.option("--kubelet-client-key", type=click.Path(), default="", help="Its key."),
    click.option(
        "--kubelet-timeout",
        type=Duration(),
        default="3s",
        show_default=True,
        callback=_some_time,
        help="For the pods to be told.",
    ),
    click.option(
        "--pods-max-age",
        type=Duration(),
        default="1s",
        show_default=True,
        help="For how long pods are used before they are read again.",
    ),
    click.option(
        "--stale-for",
        type=Duration(),
        default="5m",
        show_default=True,
        help="For how long they are used while they cannot be read.",
    ),
    click.option(
        "--when-unknown",
        type=_choices(WhenUnknown),
        default=WhenUnknown.KUBELET.value,
        show_default=True,
        help="After that: kubelet's own answer, or none.",
    ),
    click.option(
        "--sources",
        "sources_file",
        type=click.Path(),
        default="",
        help="YAML file that says who else writes devices on pods. Default: Koordinator.",
    ),
    click.option(
        "--mode",
        type=_choices(Mode),
        default=Mode.IMPROVED.value,
        show_default=True,
        help="compat: what Koordinator's proxy answers, byte for byte.",
    ),
    click.option(
        "--trust",
        type=_choices(Trust),
        default=Trust.ASKED.value,
        show_default=True,
        help="Whose annotations are believed: of pods that ask for such a device, or any.",
    ),
    click.option(
        "--scheduler",
        "schedulers",
        multiple=True,
        help="Believe only pods of this scheduler. Repeatable.",
    ),
    click.option("--share-suffix", is_flag=True, help="Number the shares of a GPU: GPU-...::1."),
    click.option("--only-with-devices", is_flag=True, help="Leave out pods that have no devices."),
    click.option(
        "--trim-above",
        default="0",
        callback=_bytes,
        help="The same, in answers longer than that: 4Mi. Default: never.",
    ),
    click.option(
        "--max-message",
        default=MESSAGE_MAX,
        show_default=True,
        callback=_answer_bytes,
        help="Largest answer taken from kubelet.",
    ),
    click.option(
        "--rate",
        type=click.IntRange(0),
        default=100,
        show_default=True,
        help="Calls a second, as kubelet allows. 0: any.",
    ),
    click.option(
        "--burst",
        type=click.IntRange(1),
        default=10,
        show_default=True,
        help="Calls at once, within that.",
    ),
    click.option(
        "--bind",
        default=BIND,
        show_default=True,
        callback=_address,
        help="Address and port of /metrics, /healthz and /readyz; empty for none.",
    ),
    click.option(
        "--events/--no-events", default=True, help="Tell of bad annotations in events on the pods."
    ),
)


def agent_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add them all; the command receives them by name."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def settings_from(chosen: Mapping[str, Any]) -> AgentSettings:
    """Raises `click.UsageError` for what does not go together. Within the command's context."""
    if is_same(chosen["socket"], chosen["kubelet_socket"]):
        problem = "the agent needs a socket of its own, and this is kubelet's (--kubelet-socket)"
        raise click.UsageError(f"--socket: {chosen['socket']}: {problem}")
    is_compat = Mode(chosen["mode"]) is Mode.COMPAT
    if is_compat:
        _refuse_what_compat_ignores(click.get_current_context())
    return AgentSettings(
        node=chosen["node"] or os.uname().nodename.lower(),
        place=SocketPlace(
            path=chosen["socket"],
            mode=chosen["socket_mode"],
            group=chosen["socket_group"],
        ),
        kubelet_socket=chosen["kubelet_socket"],
        kubelet=KubeletLimits(answer_bytes_max=chosen["max_message"]),
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
            numbers_shares=chosen["share_suffix"],
        ),
        rate=RateRules(per_second=chosen["rate"], burst=chosen["burst"]),
        is_compat=is_compat,
        sources_file=chosen["sources_file"],
        bind=chosen["bind"],
        tells_events=chosen["events"],
    )


def _refuse_what_compat_ignores(context: click.Context) -> None:
    for name, option in NOT_IN_COMPAT.items():
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            raise click.UsageError(f"{option}: has no effect with --mode=compat")


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
