"""Verbs about local ephemeral storage."""
