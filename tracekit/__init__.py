"""PyTorch profiler traces as a DuckDB database and a verdict.

import tracekit

run = tracekit.load("trace.json.gz")
run.verdict().verdict.regime              # 'overhead-bound'
run.query("top_kernels", top=5)           # a Polars frame
run.sql("SELECT name, dur_ns FROM kernels ORDER BY dur_ns DESC LIMIT 5")
"""

from typing import TYPE_CHECKING, Any

from tracekit.errors import TracekitError

if TYPE_CHECKING:
    from tracekit.database import Database, open_database
    from tracekit.loading import load
    from tracekit.profiling import profile

__version__ = "0.1.0"
__all__ = ["Database", "TracekitError", "load", "open_database", "profile"]

_HOMES = {
    "Database": "tracekit.database",
    "load": "tracekit.loading",
    "open_database": "tracekit.database",
    "profile": "tracekit.profiling",
}


def __getattr__(name: str) -> Any:
    # Loaded when first used: `tracekit --help` needs neither DuckDB nor torch.
    if name not in _HOMES:
        raise AttributeError(f"module 'tracekit' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
