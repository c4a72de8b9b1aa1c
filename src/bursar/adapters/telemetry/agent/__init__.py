"""Metrics, health and HTTP routes of the agent."""
