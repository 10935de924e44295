"""The commands of the programs: see the package."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.bench.measuring import device_of
from tests.bench.programs import JITTED, NAMES
from tests.bench.programs import __doc__ as about


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.programs", description=(about or "").splitlines()[0]
    )
    commands = parser.add_subparsers(dest="command", required=True)
    of_measure = commands.add_parser("measure", help="records a program and times its changes")
    of_measure.add_argument("name", choices=NAMES)
    of_measure.add_argument("--device", default="cuda")
    of_measure.add_argument("--folder", type=Path, required=True)
    of_screens = commands.add_parser("screens", help="writes the first screens, to be marked")
    of_screens.add_argument("folder", type=Path)
    of_table = commands.add_parser("table", help="prints promises beside observations")
    of_table.add_argument("folder", type=Path)
    of_table.add_argument("--faults", type=Path, help="also what faults.py wrote, in one table")
    of_table.add_argument("--unmarked", action="store_true", help="programs without a mark, too")
    given = parser.parse_args()
    if given.command == "measure":
        return _measure(given, parser)
    from tests.bench.programs import judge

    if given.command == "screens":
        print(f"to be marked: {judge.screens(given.folder)}")
    else:
        others = judge.read_faults(given.faults)
        for row in judge.table(given.folder, others, given.unmarked):
            print(row, flush=True)
    return 0


def _measure(given: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    given.folder.mkdir(parents=True, exist_ok=True)
    if given.name == JITTED:
        from tests.bench.programs import jitted

        return jitted.measure(given.device, given.folder)
    import torch

    from tests.bench.programs.measure import measure

    device = device_of(given, parser)
    torch.backends.cuda.matmul.allow_tf32 = False
    if device.type == "cpu":
        # Other programs on this machine disturb one thread less than several.
        torch.set_num_threads(1)
    return measure(given.name, device, given.folder)


if __name__ == "__main__":
    sys.exit(main())
