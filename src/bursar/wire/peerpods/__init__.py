"""Peer pods: reading a pod's document, and applying a decision of `core/peerpods` to it."""
