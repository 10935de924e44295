"""A simulated year of a training run, and the findings of `tracekit fleet`.

python -m tests.bench.year FOLDER

Each night the ranks run on some of the hosts. Four regressions are planted, each with a label, and
one host is slow all year. Prints the findings of `fleet`, and how long it takes.
"""

from __future__ import annotations

import json
import random
import sys
import time
from dataclasses import replace
from pathlib import Path

from tests.kit import ranks_simulated
from tests.kit.atoms import US
from tests.kit.lakes import add
from tests.kit.ranks_simulated import Job
from tracekit.lake.fleet import Fleet, fleet
from tracekit.lake.reading import open_lake
from tracekit.reporters.fleet import render

BAD_HOST = "node05"
NIGHT_NS = 86_400 * 10**9
BEGAN_NS = 1_760_000_000 * 10**9
# For the share of the year after which it begins: its label, and the change.
PLANTED = (
    (0.17, {"commit": "logs-every-step"}, {"late": {1: 2_000 * US}}),
    (0.38, {"driver": "560"}, {"kernel_ns": 640 * US}),
    (0.60, {"nccl": "2.31"}, {"message_ns": 500 * US}),
    (0.82, {"dataset": "v2"}, {"python_ns": 500 * US}),
)


def job_of(night: int, nights: int, ranks: int) -> tuple[Job, dict[str, str]]:
    """The run of a night, and its labels."""
    labels = {"commit": f"week{night // 7:02d}", "driver": "550", "nccl": "2.30", "dataset": "v1"}
    job = Job(data=ranks, steps=2, seed=1000 * night)
    for share, label, change in PLANTED:
        if night >= round(share * nights):
            job = replace(job, **change)
            labels |= label
    # Nights differ by about half a percent.
    noise = random.Random(night).gauss(1, 0.005)
    return replace(job, kernel_ns=round(job.kernel_ns * noise)), labels


def write_night(folder: Path, night: int, nights: int, ranks: int, hosts: int) -> dict[str, str]:
    """Writes the traces of a night; returns its labels."""
    job, labels = job_of(night, nights, ranks)
    here = random.Random(-night).sample([f"node{each:02d}" for each in range(hosts)], ranks)
    if BAD_HOST in here:
        job = replace(job, slow_kernels={here.index(BAD_HOST): 1.4})
    folder.mkdir(parents=True, exist_ok=True)
    ranks_simulated.write(folder, job)
    for rank, host in enumerate(here):
        path = folder / f"rank{rank}.json"
        trace = json.loads(path.read_text())
        more = {"baseTimeNanoseconds": BEGAN_NS + night * NIGHT_NS, "host_name": host}
        path.write_text(json.dumps(trace | more))
    return labels


def missing(found: Fleet, nights: int) -> list[str]:
    """Planted changes that are not found, and findings that were not planted."""
    wrong = []
    for share, label, _ in PLANTED:
        ((name, value),) = label.items()
        night = f"night{round(share * nights):03d}"
        labels = [each.labels.get(name, [None])[-1] for each in found.changes if each.run == night]
        if value not in labels:
            wrong.append(f"{night} with {label} is not found")
    if [each.host for each in found.slow_hosts] != [BAD_HOST]:
        wrong.append(f"slow hosts: {[each.host for each in found.slow_hosts]}")
    if len(found.changes) > len(PLANTED):
        wrong.append(f"changes: {[each.run for each in found.changes]}")
    if sum(each.share for each in found.slow_runs) > 0.02:
        wrong.append(f"slow runs: {[each.run for each in found.slow_runs]}")
    return wrong


def main() -> None:
    folder, nights, ranks = Path(sys.argv[1]), 365, 8
    for night in range(nights):
        name = folder / f"night{night:03d}"
        labels = write_night(name, night, nights, ranks, 2 * ranks)
        assert not add(folder / "lake", name, labels=labels, judges=True).failed
    started = time.monotonic()
    with open_lake(str(folder / "lake")) as opened:
        opening = time.monotonic() - started
        found = fleet(opened)
    print(f"opened in {opening:.1f} s, fleet in {time.monotonic() - started - opening:.1f} s")
    render(found)
    print(missing(found, nights) or "all that was planted is found, and nothing else")


if __name__ == "__main__":
    main()
