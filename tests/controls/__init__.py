"""A control for each remedy: a program with the fault planted, and its twin without it.

A module NAME.py is the control of the remedy queries/remedies/NAME.sql. It has FAULTY and FIXED,
the atoms of the two programs (tests/kit/atoms.py), and PLACE, where advice has to point. It may
have MACHINE (tests/kit/simulator.py) and METADATA, keys of the trace's JSON object.
"""
