"""Reporters present the library's results: one module per output."""
