"""Where the processes of an installation listen."""

import http.client
import json
import ssl
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from bursar.app.names import ADDRESS_ANNOTATION, CONTROLLER, WEBHOOK
from support.install.installed_bursar import HOME, InstalledBursar

AGENT = "bursar-agent"


def any_server() -> ssl.SSLContext:
    """For tests about callers. What a caller checks is its own business."""
    return ssl._create_unverified_context()  # noqa: S323


@dataclass(frozen=True)
class Endpoints:
    installed: InstalledBursar

    def controller(self) -> str:
        """The address of the leader."""
        lease = self._read("lease", "-n", HOME, CONTROLLER)
        address: str = lease["metadata"]["annotations"][ADDRESS_ANNOTATION]
        return address

    def webhook(self) -> str:
        return f"https://{self._read('service', '-n', HOME, WEBHOOK)['spec']['clusterIP']}"

    def agent(self) -> str:
        label = f"app.kubernetes.io/name={AGENT}"
        [pod] = self._read("pods", "-n", HOME, "-l", label)["items"]
        return f"http://{pod['status']['podIP']}:9479"

    def every(self) -> list[str]:
        return [self.controller(), self.webhook(), self.agent()]

    def _read(self, *named: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.installed.kubectl("get", *named, "-o", "json"))
        return found


def metrics_code(url: str, token: str = "") -> int:
    """The status of GET /metrics."""
    parts = urlsplit(url)
    connection = (
        http.client.HTTPSConnection(parts.netloc, context=any_server(), timeout=60)
        if parts.scheme == "https"
        else http.client.HTTPConnection(parts.netloc, timeout=60)
    )
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        connection.request("GET", "/metrics", headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()
