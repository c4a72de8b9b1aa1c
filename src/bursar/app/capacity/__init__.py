"""Capacity of extended resources on nodes: declarations, overrides, usage and reports."""
