"""The version of tracekit, and its name on the package index."""

__version__ = "0.1.0"
# The index's `tracekit` is another project.
DISTRIBUTION = "torch-tracekit"
