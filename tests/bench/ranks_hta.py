"""Which ranks hold up the others, and how much communication is hidden: by tracekit and by HTA, on
the same files.

    python -m tests.bench.ranks_hta [FILES OF A RUN]

Without files, the runs are simulated, each with a planted fault. HTA always names its two
candidates (`get_potential_stragglers`), and gives a share of hidden communication for each rank
(`get_comm_comp_overlap`).
"""

from __future__ import annotations

import logging
import sys
import tempfile
from pathlib import Path

import tracekit
from tests.kit.atoms import MS
from tests.kit.ranks_simulated import Job, write
from tracekit.compare import hta

PLANTED = {
    "none": Job(data=8, steps=4),
    "rank 5 logs for 3 ms": Job(data=8, steps=4, late={5: 3 * MS}),
    "rank 2's kernels take 1.5 times as long": Job(data=8, steps=4, slow_kernels={2: 1.5}),
    "rank 6 of 4 x 2 logs for 8 ms": Job(data=4, tensor=2, steps=4, late={6: 8 * MS}),
    "the link of ranks 2 and 3 is 5 times as slow": Job(
        data=4, tensor=2, steps=4, slow_links={(2, 3): 5.0}
    ),
}
# HTA looks for stragglers only among kernels with the names of older versions of NCCL.
NAMES = ("ncclDevKernel_", "ncclKernel_")


def main() -> None:
    """Prints the table."""
    logging.disable(logging.CRITICAL)
    print("| planted | tracekit: late ranks | HTA: stragglers | tracekit: hidden | HTA: hidden |")
    print("|---|---|---|---|---|")
    if len(sys.argv) > 1:
        print(compared("?", [Path(each) for each in sys.argv[1:]]))
        return
    for planted, job in PLANTED.items():
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder), job)
            files = sorted(Path(folder).glob("*.json"))
            for each in files:
                each.write_text(each.read_text().replace(*NAMES))
            print(compared(planted, files))


def compared(planted: str, files: list[Path]) -> str:
    """A line of the table."""
    with tracekit.load(files) as run:
        verdict = run.together()
        ours = ", ".join(
            f"{each.rank} ({each.cause}, {each.held_up_ns / MS:.2f} ms)"
            for each in verdict.late_ranks
            if each.cause
        )
        hidden = [row["overlap_percent"] for row in run.ask("hta_overlap")]
    theirs = hta.analysis_of(*files)
    stragglers, why = hta.run(lambda each: each.get_potential_stragglers(), theirs)
    table, _ = hta.run(lambda each: each.get_comm_comp_overlap(visualize=False), theirs)
    shares = None if table is None else table["comp_comm_overlap_pctg"].tolist()
    candidates = f"fails: {why}" if stragglers is None else ", ".join(map(str, stragglers))
    return f"| {planted} | {ours or 'none'} | {candidates} | {_span(hidden)} | {_span(shares)} |"


def _span(shares: list[float] | None) -> str:
    known = [each for each in shares or [] if each is not None]
    return f"{min(known):.2f} to {max(known):.2f} %" if known else "-"


if __name__ == "__main__":
    main()
