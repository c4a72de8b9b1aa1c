"""The list of all metrics: name, type, labels, unit, help, and the processes that print it."""
