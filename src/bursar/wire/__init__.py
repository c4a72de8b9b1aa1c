"""Codecs: bytes to typed structs to values of the core, and back. They do no I/O."""
