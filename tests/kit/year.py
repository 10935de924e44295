"""The simulated nights of a training run, on some of the hosts: four regressions are planted, each
with a label, and one host is slow."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

from tests.kit import ranks_simulated
from tests.kit.atoms import US
from tests.kit.ranks_simulated import Job

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
    ranks_simulated.write(folder, job, here, baseTimeNanoseconds=BEGAN_NS + night * NIGHT_NS)
    return labels
