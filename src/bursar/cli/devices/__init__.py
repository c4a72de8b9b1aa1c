"""The verb devices."""
