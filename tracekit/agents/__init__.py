"""For agents: tracekit's questions as tools of a server that speaks the Model Context
Protocol (https://modelcontextprotocol.io), with answers sized for a context window."""
