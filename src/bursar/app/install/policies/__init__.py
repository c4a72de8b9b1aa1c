"""Admission policies that confine accounts, protect objects of Bursar and refuse broken quotas."""
