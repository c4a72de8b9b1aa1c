"""A subset of CEL: an expression means the same as in Kubernetes, or does not compile."""
