"""The verbs about quotas: queue, release and describe quota."""
