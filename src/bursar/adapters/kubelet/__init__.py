"""The kubelet of one node: where it listens, how it is authenticated, and the pods it runs."""
