"""Metrics: what processes print, and Prometheus's own rule engine."""
