"""A Kubernetes API server: how to reach it, and the ports of `app` on top of HTTP."""
