"""All thresholds, each with its meaning and its source. Shares are of the window.

`tracekit analyze --threshold NAME=VALUE` sets one for a run, except those that what a database
stores depends on. Queries read theirs as `thresholds().NAME`: tracekit/database/constants.py
generates that macro from the table below. A query's parameter that a user can set takes its default
from there, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any

from tracekit.errors import TracekitError

_OURS = "ours"
_SKIP = "SKIP measures 4 to 8 us on today's machines, https://arxiv.org/abs/2504.11750"
_HTA = "HTA's default, https://github.com/facebookresearch/HolisticTraceAnalysis"
_COST = "PyTorch 2.13 on a virtual AMD EPYC: python -m tests.bench.recorder_cost"
_TUKEY = "Tukey, Exploratory Data Analysis, 1977: 3 ranges are 'far out'"


def _limit(
    default: float | int,
    help: str,
    source: str = _OURS,
    *,
    in_sql: bool = False,
    is_stored: bool = False,
) -> Any:
    metadata = {"help": help, "source": source, "in_sql": in_sql, "is_stored": is_stored}
    return field(default=default, metadata=metadata)


def _asked(default: float | int, help: str, source: str = _OURS) -> Any:
    """Queries read it."""
    return _limit(default, help, source, in_sql=True)


def _stored(default: float | int, help: str, source: str = _OURS) -> Any:
    """The tables and views of a database depend on it: it is the same in every run."""
    return _limit(default, help, source, in_sql=True, is_stored=True)


@dataclass(frozen=True)
class Thresholds:
    """The thresholds of one run. Each field's metadata holds its meaning and source, whether
    queries read it, and whether what a database stores depends on it."""

    # -- the verdict, the replay and the fix list -------------------------------------------------

    small_gain: float = _limit(
        0.05, "if halving neither side gains this share, the accounting decides"
    )
    busy_share: float = _limit(
        0.90, "if neither side gains, a device busy for this share leaves the host no slack"
    )
    unknown_share: float = _limit(
        0.20, "from this share on, waits that the trace does not explain can leave the regime open"
    )
    doubtful_share: float = _limit(0.05, "from this share on, such waits lower the confidence")
    exposed_share: float = _limit(
        0.05, "communication or copies that no kernel covers are reported from this share on"
    )
    close_margin: float = _limit(0.10, "a margin under this is a close call")
    turn_gain: float = _limit(
        0.10, "host and device take turns if halving either gains this, and the margin is close"
    )
    told_flip: float = _limit(
        10.0, "how much faster a side would have to be is told up to this many times"
    )
    unrecorded_share: float = _limit(
        0.5, "a bottleneck is doubtful if nothing was recorded for this share of its time"
    )
    near_share: float = _limit(
        0.8, "a recorded cause, or the one that is advised against, is near another from this share"
    )
    rank_share: float = _limit(
        0.10, "from this share on, a trace's communication may be waiting for ranks not judged here"
    )
    plain_margin: float = _limit(0.25, "a margin over this is plain")
    named_gain: float = _limit(0.01, "other causes are named if removing them gains this share")
    advised_gain: float = _limit(0.01, "a change is advised if it saves this share of the window")
    price_error: float = _limit(
        0.05, "prices closer than this share are equal", "tests/bench: prices of planted faults"
    )
    free_growth: float = _limit(
        0.05, "a larger batch is free of charge if it lengthens the step by this share at most"
    )
    most_places: int = _limit(5, "a remedy is priced at this many places, those with most time")
    most_combined: int = _limit(8, "this many pieces of advice are tried in combination")
    shown_gain: float = _limit(0.0005, "a gain below this share is reported as none")
    told_share: float = _limit(
        0.80, "one-offs inside an event stand for it if this share of its excess is theirs"
    )
    held_share: float = _limit(
        0.2, "a range that holds this share of the launches is the work, and no one-off"
    )
    longer_phase: float = _limit(
        0.10, "phases of which one gets this much longer where a side is faster are not listed"
    )
    own_excess_share: float = _limit(
        0.25, "a cause is a late rank's own if its excess is this share of what one rank waits"
    )
    slow_link: float = _limit(
        1.5, "a link is slow if its collectives take this many times as long as like ones"
    )
    fastest: float = _limit(
        64.0, "the search for the verdict's flip makes a side at most this many times faster"
    )
    few_ops: int = _limit(10, "fewer GPU ops or operators than this are an anecdote, not a run")
    once_share: float = _limit(
        0.2, "one pass was recorded if this share of the names of ops occur once, in at most a step"
    )
    most_share: float = _asked(
        0.5, "a run is captured, or compiled, if more than this share of its kernels is"
    )
    recorded_share: float = _limit(
        0.01, "recorded slices that cover less of a CPU-only window than this leave it unexplained"
    )
    shaped_work_share: float = _limit(
        0.25, "shapes tell what limits the work, or how near it is to a peak, from this share on"
    )
    launch_floor_ns: int = _asked(8_000, "a launch reaches an idle device within this time", _SKIP)
    launch_latency_ns: int = _limit(
        5_000, "launch latency in a trace without a launch that found its device idle", _SKIP
    )
    kernel_gap_ns: int = _limit(
        1_000, "gap between kernels of one stream in a trace without queued kernels"
    )
    wait_ns: int = _limit(
        20_000, "a wait for the device longer than this has a reason that the trace does not show"
    )
    clock_tick_ns: int = _limit(
        1_000, "times may be rounded by this", "Kineto wrote whole microseconds until 2023"
    )
    return_ns: int = _limit(
        5_000, "an allocator call that ends this soon after the device's last op waited for it"
    )
    spin_ns: int = _asked(
        50_000,
        "a slice that waits ends this soon after what it waits for: a turn of a polling loop",
    )
    spin_share: float = _asked(
        0.05, "and within this share of its own length: work ends near an op by chance, too"
    )
    clock_shift_ns: int = _limit(
        1_000_000,
        "an op that starts this long before its launch has a wrong link, not a late clock",
    )
    fewest_late: int = _limit(
        3, "fewer synchronizing calls than this do not tell that the device's clock is late"
    )
    late_quantile: float = _limit(
        0.9, "the quantile of their lateness by which the device's clock is set back"
    )
    prefetched_ns: int = _asked(
        200_000,
        "a fetch from other processes that takes longer than this found no batch loaded",
    )
    handed_over_share: float = _limit(
        0.90, "a thread works for another one that stands still for this share of the work"
    )
    most_givers: int = _limit(
        64, "the first threads to work, up to this many, may give work to others"
    )
    most_tried: int = _limit(
        64, "at most this many of them are tried for each thread that is given work"
    )
    quick_share: float = _limit(0.1, "the quantile of launch latencies that a quick launch takes")
    around_ns: int = _limit(
        1_000_000_000_000,
        "host work this long before the first GPU op or after the last has a wrong time",
    )
    least_growth: float = _limit(
        0.05, "in a probe, work that grew by less than this share is within the noise"
    )
    shift_share: float = _limit(
        0.05, "the step of a lake's runs changed if it differs by more than this share"
    )
    shift_errors: float = _limit(
        4.0, "and by this many standard errors: many places are tried for the change"
    )
    most_excess: float = _limit(
        1.5,
        "a probed step that grew more than this many times as much as its work did something else",
    )

    # -- queries -----------------------------------------------------------------------------------

    absurd_duration_ns: int = _asked(86_400_000_000_000, "an event that lasts longer is doubtful")
    cold_step_ratio: float = _asked(1.5, "a first step longer than this many median steps is cold")
    cold_launch_ns: int = _asked(1_000_000, "a launch call this long may load code")
    cold_loads: int = _asked(10, "with this many calls that load code, such launches are a start")
    load_share: float = _asked(
        0.2, "calls that load code, or may, for this share of the trace make it a start"
    )
    cold_steps: int = _asked(3, "with fewer steps than this, no step is called cold")
    dilation_ratio: float = _asked(
        1.1, "a profiler that lengthens steps by more than this factor is reported"
    )
    long_share: float = _asked(
        0.01, "an event that takes this share of the GPU-active span can be a one-off"
    )
    one_off_ratio: float = _asked(20.0, "and if it takes this many times as long as its like does")
    one_range_ratio: float = _asked(
        2.0,
        "a range can be a one-off if it takes this many times as long as the median of its name",
    )
    drawn_bins: int = _asked(400, "a drawing tells apart this many equal parts of an interval")
    drawn_ns: int = _asked(1_000_000_000, "of a run without steps, this long a part is drawn")
    fewest_alike: int = _asked(3, "fewer steps or ranges than this do not tell what is typical")
    fewest_calls: int = _asked(
        20, "with fewer launch calls than this, a trace does not tell what is usual"
    )
    start_parts: int = _asked(
        32, "a run's launches are looked at in this many parts to tell whether its start was slow"
    )
    start_share: float = _asked(0.3, "a slow start is at most this share of the launches")
    unended_ns: int = _asked(
        50_000,
        "frames that end this shortly before the last event of their thread were cut off",
    )
    early_share: float = _asked(
        0.25, "what recurs at one place is a one-off only before this share of the launches"
    )
    recurring_quarters: int = _asked(
        3, "what happens in this many quarters of the launches recurs, in a trace without steps"
    )
    settled_share: float = _asked(
        0.5, "allocation has settled if none follows after this share of the launches"
    )
    fewest_copies: int = _asked(
        10, "this many copies between host and device in a row can be weights, or a checkpoint"
    )
    copied_share: float = _asked(
        0.1, "if they take this share of the device's time, in a trace without steps"
    )
    after_capture_ns: int = _asked(
        20_000_000, "calls on graphs this soon after a capture's end belong to the capture"
    )
    slow_launch_ns: int = _asked(50_000, "a launch call this long is slow", _HTA)
    late_launch_ns: int = _asked(100_000, "a launch delay this long is an outlier", _HTA)
    kernel_wait_ns: int = _asked(30_000, "HTA calls a gap below this kernel_wait", _HTA)
    outlier_fence: int = _asked(
        3,
        "a kernel is far from usual this many interquartile ranges above the third quartile",
        _TUKEY,
    )
    outlier_runs: int = _asked(8, "a kernel with fewer runs than this has no usual duration")
    outlier_excess_ns: int = _asked(1_000, "an outlier exceeds the median by this")
    outlier_excess_share: float = _asked(0.1, "and by this share of the median")
    layer_repeats: int = _asked(
        3, "kernels that run in the same order this often, back to back, are layers"
    )
    layer_hint: int = _asked(8, "this many kernels in a row that come again hint at a layer")
    unfilled_share: float = _asked(
        0.25, "a grid that leaves this share of a device's time without a block does not fill it"
    )
    near_size: float = _asked(
        2.0, "matrix products are compared if no dimension differs by more than this factor"
    )
    most_pieces: int = _asked(
        12, "a norm, activation or loss is looked for in this many operators in a row"
    )
    layer_periods: int = _asked(8, "at most this many lengths of a layer are tried on a stream")
    shaped_share: float = _asked(
        0.90, "products are compared by shape if this share of their time has shapes in both runs"
    )
    dominant_share: float = _asked(
        0.25, "a kernel that takes this share of the device's time is worth tuning"
    )
    half_share: float = _asked(
        0.5, "products of unknown shape take this share on tensor cores, or with half of the bits"
    )
    tuned_reach: float = _asked(
        0.6, "a tuned product reaches this share of its roof", "as libraries' do: tests/bench"
    )
    tuned_share: float = _asked(
        0.85,
        "a generated product takes this share of its time once it is tuned",
        "max-autotune's gain on products, https://pytorch.org/assets/pytorch2-2.pdf",
    )
    stall_ns: int = _asked(
        1_000_000, "a call of microseconds that takes this long was not running or waited"
    )
    own_share: float = _asked(0.9, "a call does this share of its time itself: nothing is in it")
    latency_percent: int = _asked(
        10, "work that reaches less than this percentage of both roofs is limited by latency"
    )
    near_roof_percent: int = _asked(
        25, "memory limits a product whose shapes say so if it reaches this percentage of its peak"
    )
    sibling_ratio: float = _asked(
        1.5, "launches of one kernel and grid whose durations differ by less have the same limit"
    )
    few_tokens_share: float = _stored(
        0.25,
        "a step of fewer tokens than this share of the device's FLOPs per byte reads weights for "
        "longer than it computes, even if a weight has 4 bits",
    )
    ready_fetch_ns: int = _asked(
        100_000,
        "taking a batch that worker processes have loaded takes about this long",
        "shared traces a100-diff-control, v100-diff-test: 70 and 95 us",
    )
    fused_tensors: int = _asked(
        36,
        "a fused Adam's launch steps this many tensors",
        "depth_to_max_tensors[3], "
        "https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/cuda/MultiTensorApply.cuh",
    )
    tiny_copy_bytes: int = _asked(
        65_536,
        "the time of a copy or fill of at most this size is mostly latency",
        "up to 64 KiB, pageable memory is staged without waiting for the copy: "
        "https://docs.nvidia.com/cuda/cuda-runtime-api/api-sync-behavior.html",
    )
    fewest_batched: int = _asked(
        4, "this many tiny copies, fills or collectives in a row are worth batching"
    )
    bucket_bytes: int = _asked(
        26_214_400,
        "the last bucket of gradients has at most this size",
        "DistributedDataParallel's bucket_cap_mb of 25, "
        "https://docs.pytorch.org/docs/stable/notes/ddp.html",
    )
    host_link_bytes_per_s: float = _asked(
        12e9,
        "a copy between pinned memory and a device is at least this fast",
        "PCIe 3.0 x16, the slowest link of today's servers: 15.75 GB/s by "
        "https://pcisig.com/specifications, of which copies reach three quarters",
    )
    node_ranks: int = _asked(8, "a group of this many ranks is taken to be in one machine")
    host_bytes_per_s: float = _asked(
        1e11,
        "a thread of the host writes memory no faster than this",
        "STREAM on a core of today's servers stays under 50 GB/s: https://www.cs.virginia.edu/stream/",
    )
    graph_launches: int = _asked(
        16,
        "a CUDA graph of fewer launches than this hardly repays its replay and its inputs' copies",
    )
    small_message_bytes: int = _asked(
        262_144,
        "the time of a collective of at most this size is mostly latency",
        "20 us on links of 10 to 100 GB/s: https://arxiv.org/abs/1903.04611",
    )
    compiled_overhead: float = _asked(
        0.5, "compiled code keeps this share of the dispatch and Python that eager code needs"
    )

    # -- what a database stores --------------------------------------------------------------------

    unseen_share: float = _stored(
        0.5, "from this share on, launches without kernels leave open what the run did"
    )
    start_part: float = _stored(
        0.01, "what begins in this part of a span begins with the recording"
    )
    lost_share: float = _stored(
        0.05, "from this share of the launches on, those without kernels are a loss of the recorder"
    )
    waiting_share: float = _stored(
        0.5, "a host that waits for the device this long tells that the device is likely the limit"
    )
    arrival_ns: int = _stored(
        10_000_000,
        "a first collective this long waits for ranks that begin to record later",
        "seconds between ranks: https://github.com/AMD-AGI/Hyperloom/pull/1292",
    )
    arrival_ratio: float = _stored(
        20.0, "if it also takes this many times as long as nearly all other collectives"
    )
    nearly_all: float = _stored(0.9, "the quantile of their durations that this is held against")
    fewest_lost: int = _stored(
        3, "fewer launches, collectives or calls than this do not tell what the recorder left out"
    )
    few_launches: int = _stored(
        20, "with fewer launches and fewer operators than this, a trace shows no work of a model"
    )
    recorder_gap_ns: int = _stored(
        20_000,
        "equal gaps between the ops of a graph's replay that are shorter may be the recorder's",
        "26 % of a decoding step on MI300X: https://github.com/AMD-AGI/TraceLens/issues/728",
    )
    even_share: float = _stored(
        0.8, "gaps are equal if this share of their time is in gaps up to twice the median"
    )
    gap_share: float = _stored(0.05, "such gaps are reported from this share of the span on")
    cost_share: float = _stored(
        0.05, "what recording costs the host is reported from this share of its time on"
    )
    recorded_operator_ns: int = _stored(400, "what recording an operator costs the host", _COST)
    recorded_shapes_ns: int = _stored(450, "what its inputs' shapes cost beside that", _COST)
    recorded_memory_ns: int = _stored(100, "what allocations cost for each operator", _COST)
    recorded_frame_ns: int = _stored(350, "what recording a Python frame costs the host", _COST)
    outlived_ns: int = _stored(
        1_000,
        "a Python frame that ends this much later than its caller has no end of its own",
        "Kineto wrote whole microseconds until 2023",
    )
    late_time_ns: int = _stored(
        4_000_000_000_000_000_000, "a timestamp above this, or below its negative, is invalid"
    )
    job_gap_ns: int = _stored(
        60_000_000_000, "traces of one job are recorded within this of each other"
    )
    stepped_devices: int = _stored(
        64,
        "in a trace of more devices, only this many have windows by step, and gaps have no causes",
    )
    drawn_share: float = _stored(0.001, "a flame graph leaves out what takes less than this share")
    slow_allocation_ns: int = _stored(
        1_000_000, "an operator that allocates takes microseconds; longer, it waits for memory"
    )
    long_host_work_ns: int = _stored(
        1_000_000, "an operator that launches nothing for longer computes on the host"
    )
    host_flop_per_byte: int = _stored(
        10,
        "on a CPU, operators that do at least this many FLOPs a byte are limited by math",
        "peaks of today's CPUs: 5 to 10 for one core, 10 to 25 for all; "
        "method: https://doi.org/10.1145/1498765.1498785",
    )
    host_work_per_ns: int = _stored(
        1, "an operator that gets fewer FLOPs or bytes done in a nanosecond is limited by neither"
    )
    graph_match_share: float = _stored(
        0.95, "a graph's replay is of a capture if this share of their kernels' names agree"
    )
    queue_depth: int = _stored(512, "a queue with fewer launches than this is not full")
    full_calls: int = _stored(8, "launch calls at the same depth before the queue counts as full")
    full_share: float = _stored(
        0.25, "and their share of the calls at a depth of queue_depth or more"
    )
    full_slack: int = _stored(
        2, "depths within this many launches of the greatest count as the same"
    )

    def updated(self, settings: Iterable[str]) -> Thresholds:
        """A copy with `NAME=VALUE` settings.

        Raises:
            TracekitError: no threshold has the name, it cannot be set for one run, or the value is
                not a number of its type.
        """
        known = {each.name: type(each.default) for each in fields(self) if is_settable(each)}
        stored = {each.name for each in fields(self)} - known.keys()
        values: dict[str, Any] = {}
        for setting in settings:
            name, _, text = setting.partition("=")
            if name in stored:
                raise TracekitError(
                    f"threshold {name} cannot be set for one run: what a database stores depends "
                    "on it"
                )
            if name not in known:
                names = ", ".join(known)
                raise TracekitError(f"no threshold is named {name!r}; there are: {names}")
            try:
                values[name] = int(text) if known[name] is int else float(text)
            except ValueError:
                kind = "an integer" if known[name] is int else "a number"
                raise TracekitError(f"threshold {name} is {kind}, not {text!r}") from None
        return replace(self, **values)


def is_settable(threshold: Field[Any]) -> bool:
    """Whether a user can set a field of `Thresholds` for one run."""
    return not threshold.metadata["is_stored"]
