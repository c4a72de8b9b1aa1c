"""Kubernetes events: aggregated, bounded and written in the background."""
