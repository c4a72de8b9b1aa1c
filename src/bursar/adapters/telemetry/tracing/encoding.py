"""Spans as a request of OTLP, in protobuf."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, TypeAlias

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Status
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan

from bursar import __version__
from bursar.adapters.telemetry.tracing.context import TraceContext, parse_context
from bursar.app.tracing import NAMES, Attributes, Span

TEXT_MAX: Final = 1024
"""Longest attribute. Names of Kubernetes are shorter."""
_NANOS: Final = 1_000_000_000

Recorded: TypeAlias = tuple[Span, TraceContext]
"""A span and the trace that it belongs to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoder:
    """Encodes spans of one process."""

    resource: Mapping[str, str]
    """What the process is, such as `service.name`."""
    random: Random
    """Where the ids of traces and spans come from. They are no secrets."""
    has_names: bool = False
    """Whether the attributes `NAMES` are sent."""

    def encode(self, spans: Sequence[Recorded]) -> bytes:
        """A request with these spans, each with its trace and its own id."""
        wire = [each for span, context in spans for each in self._wire(span, context, b"")]
        scope = ScopeSpans(
            scope=InstrumentationScope(name="bursar", version=__version__), spans=wire
        )
        resource = Resource(attributes=_attributes(self.resource))
        return ExportTraceServiceRequest(
            resource_spans=[ResourceSpans(resource=resource, scope_spans=[scope])]
        ).SerializeToString()

    def context_of(self, span: Span) -> TraceContext:
        """The trace of a span: that of the request that caused it, or a new one.

        `span_id` is the parent's; it is empty in a new trace.
        """
        found = parse_context(span.parent) if span.parent else None
        if found is not None:
            return found
        return TraceContext(self.random.randbytes(16), b"", is_sampled=True)

    def _wire(self, span: Span, context: TraceContext, parent: bytes) -> Iterator[WireSpan]:
        own = self.random.randbytes(8)
        attributes = span.attributes
        if not self.has_names:
            attributes = {key: text for key, text in attributes.items() if key not in NAMES}
        yield WireSpan(
            trace_id=context.trace_id,
            span_id=own,
            parent_span_id=parent or context.span_id,
            name=span.name,
            kind=WireSpan.SPAN_KIND_SERVER if span.parent else WireSpan.SPAN_KIND_INTERNAL,
            start_time_unix_nano=_nanos(span.began_s),
            end_time_unix_nano=max(_nanos(span.began_s), _nanos(span.ended_s)),
            attributes=_attributes(attributes),
            status=Status(code=Status.STATUS_CODE_ERROR, message=span.problem[:TEXT_MAX])
            if span.problem
            else None,
        )
        for step in span.steps:
            yield from self._wire(step, context, own)


def rejected_in(body: bytes) -> int:
    """How many spans the collector says that it did not take. Raises `ValueError`."""
    try:
        answer = ExportTraceServiceResponse.FromString(body)
    except Exception as error:  # protobuf's own class depends on its implementation
        raise ValueError("not an answer of OTLP") from error
    return int(answer.partial_success.rejected_spans)


def _nanos(seconds: float) -> int:
    return int(seconds * 1e6) * (_NANOS // 1_000_000)


def _attributes(attributes: Attributes | Mapping[str, str]) -> list[KeyValue]:
    return [KeyValue(key=key, value=_value(value)) for key, value in attributes.items()]


def _value(value: str | int | bool) -> AnyValue:  # noqa: FBT001 - any of the three
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    return AnyValue(string_value=value[:TEXT_MAX])
