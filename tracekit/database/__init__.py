"""Databases: read-only connections, tracekit's SQL, and export to a trace."""
