"""Metrics and pages of the agent about local ephemeral storage."""
