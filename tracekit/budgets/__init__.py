"""Budgets for a step of the user's program: how many operators, launches and waits it may take.

`tracekit.pytest_plugin` is the door to them.
"""
