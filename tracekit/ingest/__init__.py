"""Events -> tables. The only writer of a database."""
