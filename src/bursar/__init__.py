"""Bursar keeps one set of books for everything a Kubernetes pod consumes."""

__version__ = "0.1.0.dev0"
