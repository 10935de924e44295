"""What bounds a run, because of what: facts from queries and replays, judged."""
