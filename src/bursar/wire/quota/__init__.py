"""Decoding of quotas, of the objects that gate pods, and of the record of resize promises."""
