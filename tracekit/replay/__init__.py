"""Replays a run, as a graph of host and device work, as recorded and with changes."""
