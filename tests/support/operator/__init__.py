"""The operator under test."""
