"""What a command is given to ask: a trace, a database, or a lake."""

from tracekit.lake.opening import analyses_of, files_named, open_given, verdict_together

__all__ = ["analyses_of", "files_named", "open_given", "verdict_together"]
