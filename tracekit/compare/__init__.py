"""One run against another, and tracekit against other tools."""
