"""Composition roots: which parts a process is made of."""
