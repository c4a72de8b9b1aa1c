"""Admission decisions about pods and quotas."""
