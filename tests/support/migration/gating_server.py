"""AAQ's server, as far as it gates pods: it adds the gate without looking whether it is there."""

import base64
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from bursar.core.quota.quota import GATE
from certificates import Authority
from controlplane import LOOPBACK


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
        response: dict[str, Any] = {"uid": request["uid"], "allowed": True}
        if request["operation"] == "CREATE":
            gates = request["object"]["spec"].get("schedulingGates") or []
            value = [*gates, {"name": GATE}]
            patch = [{"op": "add", "path": "/spec/schedulingGates", "value": value}]
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(json.dumps(patch).encode()).decode()
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        body = json.dumps({**review, "response": response}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


class GatingServer:
    """Answers while it runs. It can be started again on the same port."""

    def __init__(self, folder: Path) -> None:
        self._authority = Authority(folder)
        self._pair = self._authority.server("aaq-server")
        self._server: ThreadingHTTPServer | None = None
        self._port = 0

    @property
    def client_config(self) -> dict[str, str]:
        """How the API server reaches it."""
        bundle = base64.b64encode(self._authority.certificate.read_bytes()).decode()
        return {"url": f"https://{LOOPBACK}:{self._port}/serve-path", "caBundle": bundle}

    def start(self) -> None:
        if self._server is not None:
            return
        server = ThreadingHTTPServer((LOOPBACK, self._port), _Handler)
        server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._pair.certificate, self._pair.key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        self._port = server.server_address[1]
        self._server = server
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
