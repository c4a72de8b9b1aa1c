"""Decoding of workloads, of what scales them, and of which object controls which."""
