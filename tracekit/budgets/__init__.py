"""Budgets for a step of the user's program."""
