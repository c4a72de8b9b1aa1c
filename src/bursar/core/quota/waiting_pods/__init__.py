"""Pods that wait at the gate: their groups, their order, and which are released next."""
