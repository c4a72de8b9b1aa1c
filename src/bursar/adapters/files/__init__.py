"""Manifests on disk and on standard input."""
