"""PyTorch profiler traces -> a DuckDB database and a verdict.

import tracekit

run = tracekit.load("trace.json.gz")
run.verdict().regime                      # 'overhead-bound'
run.top_kernels(5)                        # a Polars frame
run.sql("SELECT name, dur_ns FROM kernels ORDER BY dur_ns DESC LIMIT 5")
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit.errors import NoAttributeError, TracekitError
from tracekit.version import __version__

if TYPE_CHECKING:
    from tracekit.capture.profile import profile
    from tracekit.frameworks.judging import on_trace_ready
    from tracekit.run import Database, load, open_database, open_lake

# In a checkout without an install, `queries` and `workloads` are next to this folder.
if not Path(__file__).with_name("queries").is_dir():
    __path__.append(str(Path(__file__).parents[1]))

__all__ = [
    "Database", "TracekitError", "__version__", "load", "on_trace_ready", "open_database",
    "open_lake", "profile",
]  # fmt: skip

_HOMES = dict.fromkeys(("Database", "load", "open_database", "open_lake"), "tracekit.run") | {
    "on_trace_ready": "tracekit.frameworks.judging",
    "profile": "tracekit.capture.profile",
}


def __getattr__(name: str) -> Any:
    # Import on first use: `tracekit --help` needs neither DuckDB nor torch.
    if name not in _HOMES:
        from tracekit.text import suggestion

        similar = suggestion(name, __all__) or "; begin with tracekit.load(TRACE)"
        raise NoAttributeError(f"module 'tracekit' has no attribute {name!r}{similar}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
