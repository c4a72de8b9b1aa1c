"""Kubernetes' own objects: pods, nodes, namespaces, workloads."""
