"""What could be changed in a run, where, and what each change would save."""
