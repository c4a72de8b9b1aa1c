"""Peer pods: pods whose containers run in a cloud VM of their own, and what the VM costs."""
