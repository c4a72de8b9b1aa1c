"""Connections to the sidecars that count pods."""
