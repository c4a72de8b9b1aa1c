"""Traces over OTLP, which only a process that traces loads."""
