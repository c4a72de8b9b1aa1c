"""Pools: cluster-level resources such as licences, and the pods that hold them."""
