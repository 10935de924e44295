"""The version of tracekit, and its name on the package index."""

__version__ = "0.1.0"
# `tracekit` on PyPI is another project.
DISTRIBUTION = "torch-tracekit"
