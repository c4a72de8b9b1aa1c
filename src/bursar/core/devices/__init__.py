"""Devices of a node: who was given which, by whom, and what clients are told of it."""
