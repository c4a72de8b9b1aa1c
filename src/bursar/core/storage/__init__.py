"""Local ephemeral storage: what pods use of a node's disk, and what the kubelet evicts for it."""
