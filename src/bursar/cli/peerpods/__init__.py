"""The verb peerpod."""
