"""Which webhooks of a webhook configuration trust Bursar's CAs, and which should."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookClient:
    """The `clientConfig` of one webhook: how the API server reaches it, and what it trusts."""

    service: tuple[str, str] | None = None
    """Namespace and name of the Service."""
    host: str = ""
    """Host of the URL; empty if there is none."""
    bundle: bytes = b""
    """The `caBundle`, decoded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The server that presents Bursar's certificate."""

    service: tuple[str, str]
    names: Collection[str]
    """The names in its certificate. A URL with another host cannot lead to it."""

    def is_reached_by(self, client: WebhookClient) -> bool:
        return client.service == self.service or client.host in self.names


def outdated(clients: Sequence[WebhookClient], server: Server, bundle: bytes) -> tuple[int, ...]:
    """Indexes of the webhooks that reach the server and do not trust exactly the bundle."""
    return tuple(
        index
        for index, each in enumerate(clients)
        if server.is_reached_by(each) and each.bundle != bundle
    )
