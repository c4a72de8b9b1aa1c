"""Verbs about cluster-level resources."""
