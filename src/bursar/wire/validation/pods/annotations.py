"""Rules for the annotations of a pod or template that the API server gives a meaning to."""

import re
from collections.abc import Iterator
from typing import Final

from bursar.core.model.pod import MIRROR_ANNOTATION
from bursar.core.model.problem import Problem, forbidden, invalid, quoted
from bursar.wire.validation.formats import descending_path
from bursar.wire.validation.section import Section

TOLERATIONS: Final = "scheduler.alpha.kubernetes.io/tolerations"
_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_SECCOMP_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP: Final = "container.seccomp.security.alpha.kubernetes.io/"
_APP_ARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_LOCAL: Final = "localhost/"
_INT32: Final = range(-(1 << 31), 1 << 31)
_SECCOMP_DEFAULTS: Final = frozenset({"runtime/default", "docker/default"})


def pod_annotations(
    field: str, found: dict[str, str], spec: Section, containers: list[Section]
) -> Iterator[Problem]:
    if MIRROR_ANNOTATION in found and not spec.text("nodeName"):
        detail = "must set spec.nodeName if mirror pod annotation is set"
        yield invalid(f"{field}[{MIRROR_ANNOTATION}]", found[MIRROR_ANNOTATION], detail)
    cost = found.get(_DELETION_COST)
    if cost is not None and not (re.fullmatch(r"0|-?[0-9]{1,12}", cost) and _is_cost(cost)):
        yield invalid(f"{field}[{_DELETION_COST}]", cost, "must be a 32bit integer")
    names = {container.text("name") for container in containers}
    for key, value in found.items():
        if key == _SECCOMP_POD or key.startswith(_SECCOMP):
            yield from _seccomp_profile(f"{field}.{key}", value)
        elif key.startswith(_APP_ARMOR):
            yield from _app_armor_profile(
                f"{field}[{key}]", key.removeprefix(_APP_ARMOR), value, names
            )


def _is_cost(text: str) -> bool:
    # Leading zeros are refused, except behind a minus sign.
    return (text == "0" or not text.startswith("0")) and int(text) in _INT32


def _seccomp_profile(field: str, profile: str) -> Iterator[Problem]:
    if profile in _SECCOMP_DEFAULTS or profile == "unconfined":
        return
    if profile.startswith(_LOCAL):
        yield from descending_path(field, profile.removeprefix(_LOCAL))
    else:
        yield invalid(field, profile, "must be a valid seccomp profile")


def _app_armor_profile(
    field: str, container: str, profile: str, names: set[str]
) -> Iterator[Problem]:
    if container not in names:
        yield invalid(field, container, "container not found")
    if profile not in {"", "runtime/default", "unconfined"} and not profile.startswith(_LOCAL):
        yield invalid(field, profile, f"invalid AppArmor profile name: {quoted(profile)}")


# ------------------------------------------------------------------ annotation and field agree


def agreement(
    found: dict[str, str], spec: Section, containers: list[Section], *, is_pod: bool
) -> Iterator[Problem]:
    """Check that profiles in annotations are those of the fields, where both are given.

    The server copies the annotation of a pod's container to a container that has no profile.
    """
    own = spec.child("securityContext")
    yield from _same("seccomp", found.get(_SECCOMP_POD), own, own)
    for container in containers:
        context = container.child("securityContext")
        name = container.text("name")
        yield from _same("seccomp", found.get(f"{_SECCOMP}{name}"), context, context)
        if spec.child("os").text("name") != "windows":
            value, is_own = found.get(f"{_APP_ARMOR}{name}"), context.has("appArmorProfile")
            if is_own or not (is_pod and _is_profile(value)):
                yield from _same("apparmor", value, context if is_own else own, context)


def _is_profile(value: str | None) -> bool:
    return value in {"runtime/default", "unconfined"} or (
        value is not None and value.removeprefix(_LOCAL).strip() not in {"", value}
    )


_FIELDS: Final = {"seccomp": "seccompProfile", "apparmor": "appArmorProfile"}
_DEFAULTS: Final = {"seccomp": _SECCOMP_DEFAULTS, "apparmor": frozenset({"runtime/default"})}


def _same(kind: str, value: str | None, holder: Section, shown: Section) -> Iterator[Problem]:
    profile = holder.maybe_child(_FIELDS[kind])
    if value is None or profile is None:
        return
    path = shown.at(_FIELDS[kind])
    match profile.text("type"):
        case "Unconfined":
            same = value == "unconfined"
        case "RuntimeDefault":
            same = value in _DEFAULTS[kind]
        case "Localhost":
            same = value.startswith(_LOCAL)
            if same and value.removeprefix(_LOCAL) != profile.maybe_text("localhostProfile"):
                detail = f"{kind} profile in annotation and field must match"
                yield forbidden(f"{path}.localhostProfile", detail)
        case _:
            same = True
    if not same:
        yield forbidden(f"{path}.type", f"{kind} type in annotation and field must match")
