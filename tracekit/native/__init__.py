"""The C library and its bindings. It parses JSON into columns of events, nests host slices, and
runs the replay's loops.

setup.py compiles it when tracekit is installed. It passes columns to DuckDB through the Arrow
C data interface: https://arrow.apache.org/docs/format/CDataInterface.html
"""
