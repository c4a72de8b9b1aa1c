"""Reading objects of a cluster once, for commands."""
