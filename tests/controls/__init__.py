"""A control for each remedy: a program with the fault planted, and its twin without it.

A module NAME.py is the control of the remedy queries/remedies/NAME.sql. It has `faulty()` and
`fixed()`, which return the atoms of a program (tests/kit/atoms.py), and PLACE, where advice has to
point. It may have MACHINE (tests/kit/simulator.py) and METADATA, keys of the trace's JSON object.
"""
