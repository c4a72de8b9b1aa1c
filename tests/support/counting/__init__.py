"""Counters for tests."""
