"""Judges what bounds a run and why, from the results of queries and replays."""
