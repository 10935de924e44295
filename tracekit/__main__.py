"""The start of the command line: `tracekit`, and `python -m tracekit`."""

import signal
import sys

from tracekit.errors import is_interrupt


def main() -> None:
    """Imports the command line and runs it. Ctrl-C ends it with status 130 and no traceback, also
    while modules are imported and while Python ends."""
    try:
        from tracekit.commands import main as run

        run()
    except BaseException as error:
        if isinstance(error, SystemExit) or not is_interrupt(error):
            raise
        sys.exit(130)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


if __name__ == "__main__":
    main()
