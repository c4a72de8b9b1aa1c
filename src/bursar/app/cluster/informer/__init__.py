"""The informer: objects of one kind in memory, kept equal to the cluster's by list and watch."""
