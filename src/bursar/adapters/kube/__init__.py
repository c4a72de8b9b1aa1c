"""A real cluster, behind the ports of `app`."""
