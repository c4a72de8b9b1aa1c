"""Devices of a node: which pod holds which device, and what kubelet's clients are told of it."""
