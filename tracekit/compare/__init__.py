"""Comparisons: one run with another, and tracekit's numbers with other tools'."""
