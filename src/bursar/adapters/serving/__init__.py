"""The HTTP server of every Bursar process, and the certificate that it presents."""
