"""The run as a graph: what is recorded of host and device, and what waits for what."""
