"""What happened once in a run: found by a query, priced by the graph, taken out of replays.

A verdict is on the steady state, so replays take the excess of one-offs out: what lies in such an
event takes no longer than its like usually does (queries/time/one_offs.sql).
"""

from tracekit.replay.one_offs.find import one_offs_of, without
from tracekit.replay.one_offs.model import OneOff

__all__ = ["OneOff", "one_offs_of", "without"]
