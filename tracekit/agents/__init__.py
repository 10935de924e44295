"""A Model Context Protocol server (https://modelcontextprotocol.io): tracekit's questions as tools
for agents, with answers sized for a context window."""
