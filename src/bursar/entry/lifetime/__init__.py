"""The lifetime of a process: start, signals, its log and the dump of its state."""
