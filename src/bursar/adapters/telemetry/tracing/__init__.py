"""Traces over OTLP. Only a process that traces loads these modules."""
