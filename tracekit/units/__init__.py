"""Units of work: what a run repeats."""
