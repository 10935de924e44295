"""Perfetto and other viewers of Chrome's trace format: traces with what tracekit found drawn in."""
