"""The run as a graph of host and device work, replayed as it was and with changes."""
