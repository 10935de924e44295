"""Reporters print what the library found: one module per output."""

# The formats that rows can be printed in.
FORMATS = ("table", "csv", "json", "parquet")
