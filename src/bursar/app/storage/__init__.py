"""Local ephemeral storage of a node: who uses it, and what the kubelet evicts for it."""
