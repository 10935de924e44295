"""An open benchmark of diagnosis: what tools say about slow runs, beside what is known of them.

`make diagnosis` prints one table for tracekit and its peers; README.md says how to add a case or a
tool.
"""
