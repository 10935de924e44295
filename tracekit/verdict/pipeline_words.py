"""The bubble of a run's pipeline, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from tracekit.text import duration, percent, share
from tracekit.verdict.model import RunVerdict

# A gain below this share counts as none.
_SHOWN = 0.0005


def bubble(run: RunVerdict, all_ns: int) -> Iterator[str]:
    """How long the stages of a pipeline idle for each other, what their schedule explains of it,
    and what smaller micro-batches would save."""
    pipeline = run.pipeline
    if pipeline is None:
        if run.bubble_ns:
            yield (
                f"The stages of the pipeline wait for each other for {duration(run.bubble_ns)} in "
                f"sends and receives (pipeline-bubble), {share(run.bubble_ns, all_ns)} of the "
                "ranks' time."
            )
        return
    step_ns, stages = pipeline.step_ns, pipeline.ranks
    fill, between, drain = (
        duration(sum(getattr(each, part) for each in stages) / len(stages))
        for part in ("fill_ns", "between_ns", "drain_ns")
    )
    yield (
        f"A stage of the pipeline idles for {duration(pipeline.idle_ns)} of an average step "
        f"(pipeline-bubble), {share(pipeline.idle_ns, step_ns)} of it: {fill} until it begins, "
        f"{between} between, {drain} once it is done (means of the stages)."
    )
    if pipeline.of_schedule is None:
        return
    several = f" of {pipeline.chunks} chunks" if pipeline.chunks > 1 else ""
    name = "an interleaved schedule" if several else "GPipe and 1F1B"
    yield (
        f"With {pipeline.stages} equal stages{several} and {pipeline.micro_batches} micro-batches, "
        f"{name} would leave {percent(pipeline.of_schedule)} of a step idle."
    )
    if pipeline.halved_ns >= _SHOWN * step_ns:
        chunks = ", or twice the chunks," if several else ", or two interleaved chunks a stage,"
        yield (
            f"Twice the micro-batches of half the size{chunks * (pipeline.ways == 1)} would make a "
            f"step {share(pipeline.halved_ns, step_ns)} shorter ({duration(pipeline.halved_ns)}), "
            "if half the work takes half the time."
        )
