"""Ranks changes by what they would gain: python examples/what_pays.py run.json.gz"""

import sys

import tracekit

CHANGES = ("host*0.5", "device*0.5", "cuda-graph", "sync*0", "copy*0", "communication*0")

with tracekit.load(sys.argv[1]) as run:
    found = [run.whatif(change) for change in CHANGES]

for each in sorted(found, key=lambda each: -each.speedup):
    print(f"{each.changes[0]:16} {each.speedup:6.2f} times as fast")
