"""Events -> tables. Only this package writes traces to a database."""
