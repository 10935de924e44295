"""Replays a run as a graph of host and device work, unchanged or with changes."""
