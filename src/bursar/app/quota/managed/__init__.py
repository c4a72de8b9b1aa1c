"""Managed quotas: objects of Kubernetes and OpenShift that enforce what a gate cannot."""
