"""Perfetto and other viewers of Chrome's trace format: traces with tracekit's findings drawn in."""
