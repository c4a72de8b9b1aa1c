"""Options of a controller that keeps the certificates of its installation."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from ipaddress import ip_address
from typing import Any, Final

import click

from bursar.app.certificates import aaq_names
from bursar.app.certificates.keeper import KeeperSettings, serving_names
from bursar.app.certificates.names import CA_SECRET
from bursar.app.install.documents import DNS_SUBDOMAIN
from bursar.cli.options import duration, flag, together
from bursar.cli.processes.options.process import TlsSource
from bursar.core.certificates.facts import CertificateSettings

LIFETIME: Final = "720h"
CA_LIFETIME: Final = "8760h"

certificate_options: Final = together(
    flag(
        "--keep-certificates",
        "Make and renew a CA and the certificate of --tls-secret, and write the CA into the "
        "webhook configurations.",
    ),
    flag(
        "--aaq-certificates",
        "Keep the CA in AAQ's Secret, with AAQ's annotations on both Secrets and AAQ's ConfigMap.",
    ),
    duration("--certificate-lifetime", LIFETIME, "Life of the certificates that are kept."),
    duration("--ca-lifetime", CA_LIFETIME, "Life of the CA that is kept."),
    duration(
        "--certificate-renew-before",
        "0s",
        "Renew certificates this long before they expire. 0s: a third of their life.",
    ),
    duration(
        "--ca-renew-before",
        "0s",
        "Renew the CA this long before it expires. 0s: a third of its life.",
    ),
    click.option(
        "--certificate-name",
        multiple=True,
        metavar="NAME",
        help="Further DNS name or IP address in the certificate, for a webhook that is reached "
        "by URL. Repeatable.",
    ),
)
DEPENDENT: Final = (
    *("certificate_lifetime", "ca_lifetime", "certificate_name"),
    *("certificate_renew_before", "ca_renew_before", "aaq_certificates"),
)
"""Parameters without effect unless certificates are kept."""


def keeper_from(
    chosen: Mapping[str, Any], namespace: str, source: TlsSource
) -> KeeperSettings | None:
    """Settings of the certificates that the leader keeps; None if it keeps none.

    Raises `click.UsageError`.
    """
    if not chosen["keep_certificates"]:
        return None
    if not source.secret:
        raise click.UsageError("--keep-certificates needs --tls-secret")
    try:
        certificates = CertificateSettings(
            names=(*serving_names(namespace), *map(_name, chosen["certificate_name"])),
            lifetime=timedelta(seconds=chosen["certificate_lifetime"]),
            ca_lifetime=timedelta(seconds=chosen["ca_lifetime"]),
            renew_before=timedelta(seconds=chosen["certificate_renew_before"]) or None,
            ca_renew_before=timedelta(seconds=chosen["ca_renew_before"]) or None,
        )
    except (ValueError, OverflowError) as error:
        raise click.UsageError(f"--certificate-lifetime, --ca-lifetime: {error}") from None
    is_like_aaq = bool(chosen["aaq_certificates"])
    return KeeperSettings(
        namespace=namespace,
        certificates=certificates,
        tls_secret=source.secret,
        ca_secret=aaq_names.CA_SECRET if is_like_aaq else CA_SECRET,
        is_like_aaq=is_like_aaq,
    )


def _name(text: str) -> str:
    """A DNS name or an IP address as a certificate states it. Raises `click.UsageError`."""
    with suppress(ValueError):
        return str(ip_address(text))
    if not DNS_SUBDOMAIN.fullmatch(text.lower()):
        raise click.UsageError(f"--certificate-name: {text!r} is no DNS name or IP address")
    return text.lower()
