"""Traces with tracekit's findings drawn in, for Perfetto and other viewers of Chrome traces."""
