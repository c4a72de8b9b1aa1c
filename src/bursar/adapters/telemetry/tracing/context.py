"""Trace context: the header `traceparent` of W3C, which anyone can send."""

import re
from typing import Final, NamedTuple

_HEADER: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")
_SAMPLED: Final = 1
HEADER_MAX: Final = 200


class TraceContext(NamedTuple):
    trace_id: bytes
    span_id: bytes
    is_sampled: bool


def parse_context(header: str) -> TraceContext | None:
    """What the header says; None for a header that is missing or invalid.

    >>> parse_context("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").is_sampled
    True
    """
    found = _HEADER.fullmatch(header[:HEADER_MAX])
    if found is None or header.startswith("ff"):
        return None
    trace_id, span_id = bytes.fromhex(found[1]), bytes.fromhex(found[2])
    if not any(trace_id) or not any(span_id):
        return None
    return TraceContext(trace_id, span_id, bool(int(found[3], 16) & _SAMPLED))
