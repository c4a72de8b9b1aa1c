"""What kubelet and the runtime write on the node: cgroup values and OOM scores."""
