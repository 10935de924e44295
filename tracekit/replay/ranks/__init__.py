"""Replays the ranks of a run together: a collective ends for all once the last rank has arrived.

collectives.py finds the collectives that several ranks took part in and lays their graphs out side
by side, rank_replay.py replays them, peers.py compares what the ranks do between collectives, and
stragglers.py tells whom the others wait for and prices changes.
"""
