"""How we read objects that others write."""

import msgspec


class Struct(msgspec.Struct, rename="camel", gc=False):
    """Foreign objects: unknown fields are ignored, and any field may be missing or null."""
