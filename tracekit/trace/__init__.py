"""Bytes of a trace -> its events: files and archives, compression, reading, and what is damaged."""
