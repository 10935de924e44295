"""What bounds a run and why: judges facts from queries and replays."""
