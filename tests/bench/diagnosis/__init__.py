"""An open benchmark of diagnosis: compares tools' answers about slow runs with known facts.

`make diagnosis` prints one table for tracekit and its peers; README.md says how to add a case or a
tool.
"""
