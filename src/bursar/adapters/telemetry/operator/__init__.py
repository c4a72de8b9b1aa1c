"""Metrics of the operator."""
