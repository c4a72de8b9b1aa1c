"""YAML and JSON text to plain values and back, bounded, with the place of every field."""
