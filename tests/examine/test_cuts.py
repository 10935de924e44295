"""Parts of real traces: a first screen is never surer of less, and keeps its form."""

from __future__ import annotations

import json
import random

import pytest

import tracekit
from tests.conftest import GPU_TRACES, OWN_TRACES, SHARED_TRACES
from tests.kit.answered import shown
from tests.kit.cuts import CUTS, cut
from tests.kit.impossible import impossible_claims
from tests.kit.mutants import bases
from tests.kit.sampling import sample
from tracekit.reporters.first_screen import LINES, WIDTH
from tracekit.verdict.confidence import LEVELS
from tracekit.verdict.regime import UNKNOWN

NAMES = (
    "a100-copies-only", "a100-mask-generation", "a100-nccl", "a100-transformer-batch512",
    "a100-vit-int8-triton", "a100-vit-recapture", "b200-moe-no-reads", "b200-moe-reads",
    "b300-moe-gather", "cpu-pippy-rpc", "h100-bert-small", "h100-qwen-small", "mi250-minitoy",
    "mi300x-ddp-hipfree", "mi300x-graph-decode", "mi300x-triton-compiled", "mi300x-vllm-decode",
    "no-categories", "rtx3060-attention", "v100-dlrm-rank0", "v100-dlrm-rank2", "v100-dlrm-rank7",
)  # fmt: skip
FILES = [
    *(path for name in NAMES if (path := SHARED_TRACES / f"{name}.json.gz").exists()),
    *(GPU_TRACES / f"{name}.json.gz" for name in ("train-step-small", "mlp-eager", "input-bound")),
    OWN_TRACES / "simulated-input-bound.json.gz",
]
# Cuts that leave a part of the work.
SHORTER = ("half", "one step")
SEEDS = 3
CASES = [(path, how, seed) for seed in range(SEEDS) for path in FILES for how in CUTS]
DRAWN = sample("cuts of real traces", CASES, random.Random(3).sample(CASES, 7))


@pytest.mark.parametrize(
    ("path", "how", "seed"),
    DRAWN,
    ids=[f"{path.name.partition('.')[0]}: {how}, {seed}" for path, how, seed in DRAWN],
)
def test_a_part_of_a_trace_is_not_surer_than_the_whole(path, how, seed, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    [base] = bases([path])
    (tmp_path / "part.json").write_text(json.dumps(cut(base, how, seed)))
    with tracekit.load([path, tmp_path / "part.json"], verdicts=False) as run:
        whole, part = (run.verdict(each) for each in run.trace_ids())
    sure, surer = whole.verdict, part.verdict
    is_flipped = surer.regime not in (sure.regime, UNKNOWN) and sure.regime != UNKNOWN
    assert not (is_flipped and surer.confidence == "high"), surer.headline
    if sure.regime != UNKNOWN and (how in SHORTER or not is_flipped):
        gone = {each.code for each in sure.lowered_by} - {each.code for each in surer.lowered_by}
        levels = [*LEVELS, "none"]
        is_surer = levels.index(surer.confidence) < levels.index(sure.confidence)
        assert not is_surer or (how not in SHORTER and gone), f"no longer in doubt: {gone}"
    answer = shown(part)
    lines = answer.screen.splitlines()
    assert len(lines) <= LINES and max(map(len, lines)) <= WIDTH
    assert not impossible_claims(answer)
