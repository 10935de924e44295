"""A control for each remedy: a program with the fault planted, and its twin without it.

`CONTROLS` has them by the names of the remedies' queries (queries/remedies/NAME.sql).
"""

from tests.controls import compiled, device, host, ranks, serving
from tests.controls.planting import CONTROLS, Control

__all__ = ["CONTROLS", "Control", "compiled", "device", "host", "ranks", "serving"]
