"""Metrics of the controller, and of what it runs: quotas, policies, sidecars, capacity."""
