"""Workloads timed without the profiler: over grids of sizes, and changed to test a verdict."""
