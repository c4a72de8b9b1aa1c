"""Kubelet's PodResources API: its protobuf messages, and how devices are added to them."""
