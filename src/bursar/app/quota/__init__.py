"""Quotas in a running cluster: feed the books, lift gates, write statuses, record events."""
