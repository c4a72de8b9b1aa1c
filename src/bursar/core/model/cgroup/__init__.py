"""Cgroup values and OOM scores that the kubelet and the runtime set on a node."""
