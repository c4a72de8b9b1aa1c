"""Validation of resources by the API server's rules, with its messages."""
