"""Random histories of a whole controller on an embedded cluster, in virtual time."""
