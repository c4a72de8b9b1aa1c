"""A collector of traces: an OTLP receiver over HTTP, with OpenTelemetry's own messages."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


class Collector:
    """Takes spans, or treats its clients badly."""

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.status = 200
        self.rejected = 0
        self.garbage = b""
        self.released = threading.Event()
        """Cleared: no request is answered."""
        self.released.set()
        self.url = ""

    def spans(self) -> list[Any]:
        return [
            span
            for request in list(self.requests)
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def named(self, name: str) -> list[Any]:
        return [each for each in self.spans() if each.name == name]

    def answer(self) -> bytes:
        if self.garbage:
            return self.garbage
        found = ExportTraceServiceResponse()
        found.partial_success.rejected_spans = self.rejected
        return found.SerializeToString()


def attributes(span: Any) -> dict[str, Any]:
    return {
        each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes
    }


@contextmanager
def a_collector() -> Iterator[Collector]:
    found = Collector()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.released.wait()
            found.paths.append(self.path)
            found.headers.append({name.lower(): text for name, text in self.headers.items()})
            if found.status == 200:
                found.requests.append(ExportTraceServiceRequest.FromString(body))
            answer = found.answer()
            self.send_response(found.status)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            """Write no log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    found.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield found
    finally:
        found.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
