"""The scheduler extender: pods get their part of a pool when the scheduler binds them."""
