"""Faults of communication between ranks."""

from tests.controls.planting import PAUSE, SYNC, launched, planted, products, reduced, steps
from tests.kit.atoms import US, HandOver, Launch, Op, StreamWait, line, operator
from tests.kit.simulator import Machine

GRADIENT = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"


@planted("metrics.py(18): reduce_all", faulty=(24, 256), fixed=(1, 24 * 256))
def coalesce_collectives(place, count, elements):
    """Many small all-reduces in a row; in the twin, one with all their bytes."""
    reduction = operator("c10d::allreduce_", 6 * US, reduced(24 * US, elements))
    return steps(*products(20, 20 * US, 5 * US), line(place, *[reduction] * count), SYNC, PAUSE)


def layers(name, count):
    return [launched(name, 8 * US, ("math", 60 * US), 4 * US)] * count


@planted("allreduce, group 0", faulty=(1,), fixed=(4,), machine=Machine(records_waits=True))
def overlap_communication(_, buckets):
    """Gradients are reduced in one bucket after the backward pass; in the twin, in four during
    it."""
    elements = 100 // buckets * 1024 * 1024 // 4
    sent = reduced(1_000 * US // buckets, elements, dispatch_ns=4 * US)
    bucket = operator(GRADIENT, 4 * US, StreamWait(2 * US, 7, 20), sent)
    turns = [*layers("MmBackward0", 20 // buckets), bucket] * buckets
    backward = HandOver((*turns, StreamWait(2 * US, 20, 7)))
    optimizer = launched("aten::add_", 6 * US, ("memory-bandwidth", 8 * US), 4 * US)
    return steps(*layers("aten::mm", 10), backward, optimizer, SYNC, PAUSE)


@planted("allreduce, group 0", faulty=(700 * US,), fixed=(120 * US,))
def waiting_for_a_rank(_, second_ns):
    """Every second all-reduce waits for another rank; in the twin, that rank comes in time."""
    model = products(10, 40 * US, 5 * US)
    first, second = (reduced(ns, 1 << 20, stream=7) for ns in (120 * US, second_ns))
    return steps(*model, first, *model, second, SYNC, PAUSE)


def copied(name):
    op = Op("copy", 2 * US, "Memcpy DtoD (Device -> Device)", {"bytes": 4096})
    return launched(name, 8 * US, op)


SENT = Launch(6 * US, (("communication", 30 * US),), stream=20)


@planted(
    "DistributedDataParallel, buffers",
    faulty=(
        operator("aten::flatten_dense_tensors", 300 * US, copied("aten::cat")),
        operator("c10d::broadcast_", 20 * US, StreamWait(2 * US, 7, 20), SENT),
        operator("record_param_comms", 4 * US, StreamWait(2 * US, 20, 7)),
        operator("aten::unflatten_dense_tensors", 400 * US),
        *[copied("aten::copy_")] * 60,
    ),
    fixed=(),
)
def ddp_copies(_, *before):
    """DistributedDataParallel broadcasts buffers in each step; in the twin, ranks keep their
    own."""
    return steps(*before, *products(40, 20 * US, 5 * US), SYNC, PAUSE)
