"""Clusters for tests of the scheduler and of what Bursar says about it."""
