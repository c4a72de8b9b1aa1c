"""Validation of the resources of a peer pod, before the rewrite removes them."""
