"""The option --kubernetes of `bursar manifests`: no object that a cluster of this version lacks."""

import re
from collections.abc import Iterable
from typing import Final

import click

from bursar.app.doctor.supported import MUTATING_POLICIES_SINCE, OLDEST
from bursar.app.install.documents import Document
from bursar.app.names import GATING_POLICY

_VERSION: Final = re.compile(r"v?1\.([0-9]{1,4})([.+-].*)?")
_BY_WEBHOOKS: Final = "name the parts webhook and webhooks instead of policies"
_WITH_WEBHOOK: Final = "leave out --without-webhook"


def minor_version(text: str) -> int | None:
    """The minor version in a text such as 1.34 or v1.34.4; None for an empty one.

    Raises `click.UsageError`.
    """
    if not text:
        return None
    found = _VERSION.fullmatch(text)
    if found is None:
        raise click.UsageError(f"--kubernetes: a version such as 1.34 is expected, not {text!r}")
    minor = int(found[1])
    if minor < OLDEST:
        raise click.UsageError(f"--kubernetes: 1.{OLDEST} is the oldest version Bursar supports")
    return minor


def gates_by_policies(minor: int | None) -> bool:
    """Whether policies can gate pods. An unknown version is taken for the newest."""
    return minor is None or minor >= MUTATING_POLICIES_SINCE


def require_known_kinds(documents: Iterable[Document], minor: int | None) -> None:
    """Raises `click.UsageError` if the version lacks the kind of a document."""
    if gates_by_policies(minor):
        return
    for each in documents:
        if str(each["kind"]).startswith("MutatingAdmissionPolicy"):
            metadata = each["metadata"]
            assert isinstance(metadata, dict)
            name = str(metadata["name"])
            is_gate = name == GATING_POLICY
            raise click.UsageError(
                f"{each['kind']} {name} needs Kubernetes 1.{MUTATING_POLICIES_SINCE}, "
                f"not 1.{minor}: {_BY_WEBHOOKS if is_gate else _WITH_WEBHOOK}"
            )
