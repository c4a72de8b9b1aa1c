"""Builders of objects for tests, one module per kind of object."""
