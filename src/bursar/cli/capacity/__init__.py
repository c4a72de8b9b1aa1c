"""The verb capacity."""
