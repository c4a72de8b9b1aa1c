"""The base class of structs for objects of the Kubernetes API."""

import msgspec


class Struct(msgspec.Struct, rename="camel", gc=False):
    """A struct of the API: unknown fields are ignored, and any field can be absent or null."""
