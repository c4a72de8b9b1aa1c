"""JSON pointers (RFC 6901), as patches use them."""


def pointer(parent: str, key: str) -> str:
    """The JSON pointer to a member of the object at `parent`.

    >>> pointer("/status/capacity", "kata.peerpods.io/vm")
    '/status/capacity/kata.peerpods.io~1vm'
    """
    if "/" in key or "~" in key:
        key = key.replace("~", "~0").replace("/", "~1")
    return f"{parent}/{key}"
