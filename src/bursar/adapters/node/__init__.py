"""Sockets on the node: kubelet's PodResources socket, and the agent's own."""
