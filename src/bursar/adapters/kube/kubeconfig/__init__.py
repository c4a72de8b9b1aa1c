"""Kubeconfig files: how they are merged, and which access they describe."""
