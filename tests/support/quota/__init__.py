"""The quota controller on embedded, simulated and real clusters."""
