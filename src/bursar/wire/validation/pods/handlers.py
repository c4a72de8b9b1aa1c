"""Rules for probes and lifecycle hooks."""

from collections.abc import Iterator
from typing import Final

from bursar.core.model.problem import JsonText, Problem, forbidden, invalid, not_supported, required
from bursar.wire.validation.formats import (
    each_invalid,
    header_name_errors,
    nonnegative,
    port_errors,
    port_name_errors,
)
from bursar.wire.validation.section import Section

_PROBE_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOK_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "sleep")


def probes(container: Section, grace_s: int) -> Iterator[Problem]:
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if (probe := container.maybe_child(name)) is not None:
            yield from _probe(probe, grace_s, is_readiness=name == "readinessProbe")


def _probe(probe: Section, grace_s: int, *, is_readiness: bool) -> Iterator[Problem]:
    yield from _handler(probe, _PROBE_HANDLERS, grace_s)
    for name in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold"):
        yield from nonnegative(probe.at(name), probe.number(name))
    yield from nonnegative(probe.at("failureThreshold"), probe.number("failureThreshold"))
    grace, field = (
        probe.maybe_number("terminationGracePeriodSeconds"),
        probe.at("terminationGracePeriodSeconds"),
    )
    if grace is not None and grace <= 0:
        yield invalid(field, grace, "must be greater than 0")
    if is_readiness:
        if grace is not None:
            yield invalid(field, grace, "must not be set for readinessProbes")
    elif (threshold := probe.number("successThreshold") or 1) != 1:
        yield invalid(probe.at("successThreshold"), threshold, "must be 1")


def lifecycle(container: Section, grace_s: int) -> Iterator[Problem]:
    """Check the hooks. `stopSignal` is ignored: its feature gate is off by default."""
    hooks = container.child("lifecycle")
    for name in ("postStart", "preStop"):
        if (hook := hooks.maybe_child(name)) is not None:
            yield from _handler(hook, _HOOK_HANDLERS, grace_s)


def _handler(handler: Section, kinds: tuple[str, ...], grace_s: int) -> Iterator[Problem]:
    found = [each for kind in kinds if (each := handler.maybe_child(kind)) is not None]
    if not found:
        yield required(handler.path, "must specify a handler type")
        return
    yield from _action(found[0], found[0].path.rpartition(".")[2], grace_s)
    for extra in found[1:]:
        yield forbidden(extra.path, "may not specify more than 1 handler type")


def _action(action: Section, kind: str, grace_s: int) -> Iterator[Problem]:
    match kind:
        case "exec":
            if not action.count("command"):
                yield required(action.at("command"))
        case "httpGet":
            yield from _http(action)
        case "sleep":
            seconds = action.number("seconds")
            if not 0 <= seconds <= grace_s:
                detail = (
                    f"must be non-negative and less than terminationGracePeriodSeconds ({grace_s})"
                )
                yield invalid(action.path, seconds, detail)
        case _:
            yield from _port(action)


def _http(action: Section) -> Iterator[Problem]:
    yield from _port(action)
    scheme = action.text("scheme") or "HTTP"
    if scheme not in {"HTTP", "HTTPS"}:
        yield not_supported(action.at("scheme"), JsonText(scheme), ("HTTP", "HTTPS"))
    for header in action.items("httpHeaders"):
        name = header.text("name")
        yield from each_invalid(action.at("httpHeaders"), name, header_name_errors(name))


def _port(action: Section) -> Iterator[Problem]:
    port = action.number_or_text("port") or action.text("port") or 0
    if action.maybe_text("port") is not None:
        port = action.text("port")
    errors = port_name_errors(port) if isinstance(port, str) else port_errors(port)
    yield from each_invalid(action.at("port"), port, errors)
