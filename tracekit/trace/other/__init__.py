"""Converts other profilers' files to Kineto traces, one per process."""
