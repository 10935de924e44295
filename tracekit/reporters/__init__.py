"""Reporters print what the library found: one module per output."""
