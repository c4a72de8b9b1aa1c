"""Metrics of the scheduler extender."""
