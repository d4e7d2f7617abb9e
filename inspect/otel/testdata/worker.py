"""A worker of package relay/process that makes a span for each request, and answers with the spans that were exported."""

import json
import struct
import sys

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
tracer = provider.get_tracer("worker")


def exported():
    return [
        {
            "Name": span.name,
            "Trace": f"{span.context.trace_id:032x}",
            "Parent": f"{span.parent.span_id:016x}",
            "State": span.context.trace_state.to_header(),
        }
        for span in exporter.get_finished_spans()
    ]


while len(size := sys.stdin.buffer.read(8)) == 8:
    both, head = struct.unpack(">II", size)
    header = json.loads(sys.stdin.buffer.read(head))
    sys.stdin.buffer.read(both - 4 - head)
    if header["kind"] != "request":
        continue
    context = TraceContextTextMapPropagator().extract(header)
    with tracer.start_as_current_span("upper", context=context):
        pass
    body = json.dumps(exported()).encode()
    reply = json.dumps({"kind": "reply", "id": header["id"]}).encode()
    sys.stdout.buffer.write(struct.pack(">II", 4 + len(reply) + len(body), len(reply)) + reply + body)
    sys.stdout.buffer.flush()
