"""Metrics of certificates: the one that a process serves, and those that the leader keeps."""
