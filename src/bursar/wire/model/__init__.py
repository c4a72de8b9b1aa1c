"""Decoding of built-in kinds: pods, nodes, namespaces, workloads."""
