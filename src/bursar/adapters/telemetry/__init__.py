"""Prometheus metrics and health, gathered for each scrape."""
