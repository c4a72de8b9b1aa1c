"""The verbs about quotas: queue, top, release, describe quota."""
