"""Changes that a run could use: what to change, where, and what it would save."""
