"""What makes a cluster live: controllers of workloads, a scheduler, nodes and time."""
