"""Writes the Helm chart and the kustomize base from what `bursar manifests` prints."""
