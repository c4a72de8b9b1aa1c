"""Codecs: bytes to typed structs to values of the core, and back, without I/O."""
