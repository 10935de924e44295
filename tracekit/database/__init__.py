"""Databases: read-only connections, the SQL that ships with tracekit, and export to a trace."""
