"""Bursar in a cluster, installed by its own manifests and run from its own image."""
