"""Random histories of a cluster with quotas: who acts in them, and the auditor."""
