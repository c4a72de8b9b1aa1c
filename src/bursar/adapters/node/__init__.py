"""What a node offers to programs on it: kubelet's PodResources socket, and ours beside it."""
