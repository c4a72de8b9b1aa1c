"""`bursar webhook` as a process of its own, and clients that send it reviews."""

import asyncio
import http.client
import json
import ssl
from pathlib import Path

from certificates import Authority
from controlplane import LOOPBACK, ControlPlane
from program import Program, free_port
from support.builders.reviews import a_review, put_pair, raw_pod
from support.http_peer import HttpPeer
from support.processes.command_line import COMMAND

REVIEW = json.dumps(a_review("Pod", "CREATE", raw_pod())).encode()


class Webhook:
    """The verb as a process of its own, with certificates of its own authority."""

    def __init__(
        self, plane: ControlPlane, folder: Path, home: str, *more: str, port: int = 0
    ) -> None:
        self.folder = folder
        self.authority = Authority(folder)
        self.port = port or free_port()
        put_pair(folder, self.authority.server("webhook"))
        arguments = [
            f"--bind={LOOPBACK}:{self.port}",
            f"--tls-dir={folder}",
            f"--namespace={home}",
            f"--kubeconfig={plane.kubeconfig}",
            *more,
        ]
        self.program = Program(
            "webhook",
            [str(COMMAND), "webhook", *arguments],
            log=folder / "webhook.log",
            is_ready=self.is_ready,
        )

    @property
    def url(self) -> str:
        return f"https://{LOOPBACK}:{self.port}"

    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.authority.certificate))

    def is_ready(self) -> bool:
        connection = http.client.HTTPSConnection(
            LOOPBACK, self.port, context=self.trust(), timeout=60
        )
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == http.client.OK
        except OSError:
            return False
        finally:
            connection.close()

    def log(self) -> str:
        return (self.folder / "webhook.log").read_text()


async def gate_once(peer: HttpPeer) -> bool:
    """Send a review; whether the connection may be used again."""
    answer = await peer.ask("POST", "/serve-path", REVIEW, Content_Type="application/json")
    assert json.loads(answer.body)["response"]["patchType"] == "JSONPatch"
    return not answer.is_last


async def shown_certificate(webhook: Webhook) -> bytes:
    _, writer = await asyncio.open_connection(LOOPBACK, webhook.port, ssl=webhook.trust())
    certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return certificate
