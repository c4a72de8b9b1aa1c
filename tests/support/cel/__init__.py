"""Expressions for tests."""
