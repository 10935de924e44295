"""The entry point of the command line: `tracekit` and `python -m tracekit`."""

import atexit
import os
import signal
import sys
from contextlib import suppress

from tracekit.errors import is_interrupt


def main() -> None:
    """Imports the command line and runs it. Ctrl-C ends it with status 130 and no traceback, even
    during imports and Python's shutdown."""
    status = 0
    try:
        from tracekit.commands import main as run

        run()
    except BaseException as error:
        if isinstance(error, SystemExit) and isinstance(error.code, int):
            status = error.code
        elif is_interrupt(error):
            status = 130
        else:
            raise
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    from tracekit.database.interrupt import work_is_left_running

    # Python would free objects one by one (0.1 s after analyzing a small trace), and would wait
    # for a query that could not be stopped.
    if not work_is_left_running():
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
