"""The C library and its bindings: parses JSON text into columns of events, and nests host slices.

It is compiled when tracekit is installed (setup.py), and passes columns to DuckDB through the Arrow
C data interface: https://arrow.apache.org/docs/format/CDataInterface.html
"""
