"""Counting by sidecars: how they are found and asked, and their settings."""
