"""The certificates that Bursar keeps for itself: the CA, the serving pair, and who trusts them."""
