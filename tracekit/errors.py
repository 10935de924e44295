"""The one error type that reaches the edge."""


class TracekitError(Exception):
    """What was wrong, where, and what to do, in one line that a user can act on.

    The command line prints it on standard error and exits with status 2.
    """
