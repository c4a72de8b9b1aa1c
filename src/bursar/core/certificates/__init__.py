"""When the certificates that Bursar keeps for itself are made, renewed and trusted."""
