"""Pods' storage and the kubelet's summary, as Kubernetes writes them."""
