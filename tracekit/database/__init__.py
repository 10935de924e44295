"""A database: connections that only read, the SQL that ships, and the way back to a trace."""
