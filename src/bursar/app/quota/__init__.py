"""Quotas at work: the books fed by watches, gates lifted, statuses written, people told."""
