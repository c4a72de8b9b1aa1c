"""The objects to apply so that a cluster has Bursar: policies, webhooks and their rights."""
