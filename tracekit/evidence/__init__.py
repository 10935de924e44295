"""What a verdict rests on: collected from questions and replays, then frozen."""
