"""TLS of a server: its certificate and profile, and the CAs of client certificates."""
