"""Devices of a node: which pod holds which device, and what the PodResources API shows of it."""
