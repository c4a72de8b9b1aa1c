"""Composition roots: who is introduced to whom."""
