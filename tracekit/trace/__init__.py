"""Bytes of a trace -> its events: files, archives, compression, parsing, recovery from damage."""
