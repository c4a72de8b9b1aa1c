"""Numbers as Go computes with them."""
