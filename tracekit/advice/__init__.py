"""Advice on a run: what to change, where, and what each change would save."""
