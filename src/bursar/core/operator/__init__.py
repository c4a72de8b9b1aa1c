"""Decisions of the operator: versions, phases, conditions, and TLS profiles."""
