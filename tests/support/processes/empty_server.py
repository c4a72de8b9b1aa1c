"""An API server without objects, on loopback, for the tables of verbs that read only clusters."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import yaml

VERSION = {"major": "1", "minor": "36", "gitVersion": "v1.36.0"}
KINDS = ("pods", "namespaces", "nodes", "resourcequotas", "clusterrolebindings", "rolebindings")


class _Answers(BaseHTTPRequestHandler):
    """Lists of built-in kinds are empty; other kinds and all objects do not exist."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/version":
            self._answer(200, VERSION)
        elif path.rpartition("/")[2] in KINDS:
            listed = {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}}
            self._answer(200, {**listed, "items": []})
        else:
            self._refuse()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._refuse()

    def _refuse(self) -> None:
        message = "the server could not find the requested resource"
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404}
        self._answer(404, {**status, "reason": "NotFound", "message": message})

    def _answer(self, code: int, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Audit-Id", "1")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def empty_server(folder: Path) -> Iterator[Path]:
    """Start it, and give a kubeconfig for it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        config = {
            "current-context": "empty",
            "clusters": [
                {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
            ],
            "contexts": [{"name": "empty", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {}}],
        }
        path = folder / "kubeconfig"
        path.write_text(yaml.safe_dump(config))
        yield path
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
