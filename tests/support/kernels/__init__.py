"""Kernels besides the one that this machine runs."""
