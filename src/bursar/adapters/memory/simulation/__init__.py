"""Simulated workload controllers, scheduler and nodes, on a real or a virtual clock."""
