"""What is written in C: events, from JSON text to columns, and the tree that host slices form.

Compiled when tracekit is installed (setup.py). Columns are handed over by the Arrow C data
interface: https://arrow.apache.org/docs/format/CDataInterface.html
"""
