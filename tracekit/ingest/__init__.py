"""Writes events to tables. Only this package writes traces to a database."""
