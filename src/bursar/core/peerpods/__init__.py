"""Peer pods: pods whose containers run in a machine beside the cluster, and what that costs."""
