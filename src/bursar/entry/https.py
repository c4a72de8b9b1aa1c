"""Serving with a certificate, as the webhook and the controller do."""

from bursar.adapters.serving.server import HttpServer
from bursar.adapters.serving.serving_certificate import ServingCertificate
from bursar.app.log import Log
from bursar.entry.process import start_server


async def listen(
    server: HttpServer, certificate: ServingCertificate, address: tuple[str, int], *, log: Log
) -> None:
    """Serve until cancelled, then finish the requests in flight. Raises `BadInputError`."""
    context = await certificate.wait_for_context()
    log.info("listening", address=await start_server(server, address, context))
    try:
        await certificate.watch()
    finally:
        await server.stop()
