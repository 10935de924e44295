"""The ranks of a run, replayed together: a collective ends for all when the last rank has come.

collectives.py finds the collectives that several ranks took part in and lays their graphs out side
by side, rank_replay.py replays them, stragglers.py compares what the ranks do between collectives
and prices changes.
"""
