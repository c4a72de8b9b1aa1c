"""Quotas: limits, the ledger of what pods are charged, and the queue of waiting pods."""
