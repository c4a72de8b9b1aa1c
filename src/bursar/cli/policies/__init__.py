"""`bursar policy`: CountingPolicies."""
