"""Kinds of trace that mislead a careless reader; the truth about each is known."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tests.bench.diagnosis.healthy import SINGLE, products
from tests.bench.diagnosis.programs import Events, Program, gain, regime
from tests.bench.diagnosis.score import Case, labels
from tests.kit.atoms import (
    MS,
    NAMES,
    US,
    BlockingCopy,
    Call,
    Launch,
    Op,
    Slice,
    Sync,
    Work,
    line,
    operator,
    step,
)
from tests.kit.simulator import HOST, MAIN, Machine

SEEDS = 3
ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
UNKNOWN = Case("", "misleading", "")


def _saving(saves: tuple[float, float]) -> Case:
    """A case without other known facts."""
    return replace(UNKNOWN, saves=saves)


def _step_of(kind: str, *atoms: Any, count: int = 5) -> list[Any]:
    return [step(n, line("train.py(12): " + kind, *atoms)) for n in range(count)] + [Sync(2 * US)]


def _small(count: int, us: int, cause: str = "memory-bandwidth", host: int = 12) -> list[Any]:
    kernel = (cause, us * US)
    return [operator("aten::add", host * US, Launch(4 * US, (kernel,)))] * count


def _read() -> Any:
    return operator("aten::item", US, operator("aten::_local_scalar_dense", US, Sync(2 * US, 7)))


def _is_gpu(event: dict[str, Any]) -> bool:
    return event["cat"] in ON_GPU


# -- the window ------------------------------------------------------------------------------------


def work_before_the_first_op(rng: random.Random) -> Program:
    """Each marked step prepares its images in Python before its first op."""

    def program(ns: int) -> list[Any]:
        prepare = line("data.py(390): normalize", Work(ns))
        return _step_of("step", prepare, *products(random.Random(7)), Sync(2 * US), count=count)

    ns, count = rng.randint(14, 30) * MS, rng.choice([1, 5, 5])
    faulty, mended = program(ns), program(50 * US)
    share = gain(faulty, mended)[1]
    return Program(_saving((share, share)), faulty)


def one_step_of_many_passes(rng: random.Random) -> Program:
    """One marked step holds equal passes, each with its own preprocessing in the loader."""
    load = Slice(SINGLE, "user_annotation", (Work(rng.randint(12, 20) * MS, "input"),))
    passes = [load, *products(random.Random(7))[:12], _read()] * 6
    bare = [each for each in passes if each is not load]
    faulty, mended = [step(0, *passes)], [step(0, *bare)]
    return Program(_saving(gain(faulty, mended)), faulty)


# -- repeated work is not a one-off
# --------------------------------------------------------------------


def repetitions_in_one_range(rng: random.Random) -> Program:
    """A range that occurs once holds all the repetitions of the work."""
    turn = [line("serve.py(8): tokenize", Work(rng.randint(2, 4) * MS)), *_small(8, 60), _read()]
    atoms = [*_small(4, 30), Slice("evaluate", "user_annotation", tuple(turn * 17)), Sync(2 * US)]
    bare = [*_small(4, 30), Slice("evaluate", "user_annotation", tuple(turn[1:] * 17))]
    return Program(_saving(gain(atoms, bare)), atoms)


def allocator_under_pressure(rng: random.Random) -> Program:
    """In some steps after the first, the allocator frees its memory and allocates it again."""
    retry = [
        *[Call("cudaFree", rng.randint(900, 2000) * US, "allocation")] * 5,
        *[Call("cudaMalloc", rng.randint(900, 2000) * US, "allocation")] * 5,
    ]
    work = [*products(random.Random(3))[:20], _read()]
    atoms = [step(n, *(retry if n in (2, 5) else []), *work) for n in range(8)]
    return Program(UNKNOWN, atoms)


# -- graphs ----------------------------------------------------------------------------------------


def graph_already(rng: random.Random) -> Program:
    """A graph carries nearly all launches; the host prepares a batch before each replay."""
    kernels = tuple(("memory-bandwidth", rng.randint(12, 30) * US) for _ in range(300))
    graph = operator("graph", 9 * US, Launch(200 * US, kernels, name="cudaGraphLaunch"))
    prepare = line("scheduler.py(30): prepare_batch", Work(500 * US), *_small(6, 4, host=30))
    return Program(UNKNOWN, _step_of("decode", prepare, graph, Sync(2 * US)))


def reads_that_later_work_needs(rng: random.Random) -> Program:
    """Sizes are read again and again in a step, so no graph can hold it; the reads are to go."""
    ns = rng.randint(20, 40)
    size = BlockingCopy(4 * US, 2 * US, name="Memcpy DtoH (Device -> Pageable)", bytes=8)
    read = operator("aten::item", US, operator("aten::_local_scalar_dense", US, size))
    chunk = _small(3, ns, "math", host=14)
    faulty = _step_of("route", *[*chunk, line("moe.py(40): split_sizes", read)] * 40)
    mended = _step_of("route", *chunk * 40)
    return Program(_saving(gain(faulty, mended)), faulty)


# -- cold starts, empty traces, effects of the recorder ---------------------------------------


def a_first_pass(rng: random.Random) -> Program:
    """One first pass loads each kernel's code: calls of a millisecond, no repetition."""
    ops = []
    for n in range(120):
        load = Call("cudaFuncGetAttributes", rng.randint(400, 1500) * US, "launch")
        kernel = Op("memory-bandwidth", 30 * US, f"void at::native::kernel_{n}")
        ops.append(operator(f"aten::op_{n}", 10 * US, load, Launch(60 * US, (kernel,))))
    return Program(UNKNOWN, [*ops, Sync(2 * US)])


def only_setup(rng: random.Random) -> Program:
    """The set-up was recorded in place of the work: allocations and synchronizations, no op."""
    calls = [Call("cudaMalloc", rng.randint(80, 400) * US, "allocation") for _ in range(30)]
    atoms = [step(n, *calls, Call("cudaDeviceSynchronize", 9 * US, "sync")) for n in range(3)]
    return Program(UNKNOWN, atoms)


def graph_replays_without_kernels(rng: random.Random) -> Program:
    """The trace has the kernels of only one of many replays. The host waits for the others in a
    synchronize."""
    kernels = tuple(("math", 300 * US) for _ in range(200))
    graph = operator("graph", 9 * US, Launch(90 * US, kernels, name="cudaGraphLaunch"))
    kept = rng.randint(1, 4)

    def dropped(events: Events) -> Events:
        launches = [e["args"]["correlation"] for e in events if e["name"] == "cudaGraphLaunch"]
        keep = launches[-kept]
        return [e for e in events if not _is_gpu(e) or e["args"]["correlation"] == keep]

    atoms = [a for _ in range(20) for a in (graph, Sync(2 * US))]
    return Program(UNKNOWN, atoms, disturb=dropped)


def kernels_dropped_at_the_start(rng: random.Random) -> Program:
    """The ops of the first launches are missing: they ran, and their records were thrown away."""
    share = rng.uniform(0.5, 0.8)

    def dropped(events: Events) -> Events:
        launched = sorted(e["args"]["correlation"] for e in events if _is_gpu(e))
        first = launched[int(len(launched) * share)]
        return [e for e in events if not _is_gpu(e) or e["args"]["correlation"] >= first]

    work = [*products(random.Random(5)), _read()]
    return Program(UNKNOWN, [step(n, *work) for n in range(6)], disturb=dropped)


def calls_that_never_end(rng: random.Random) -> Program:
    """Frames of C calls that all end when the profiler stops, across all later events."""

    def unended(events: Events) -> Events:
        stop = max(e["end"] for e in events)
        begins = rng_of_frames.sample(sorted({e["begin"] for e in events if not _is_gpu(e)}), 12)
        frame = {"cat": "python_function", "pid": HOST, "tid": MAIN, "end": stop, "args": {}}
        names = ["<built-in method forward of type object>", "<built-in method apply>"] * 6
        return [
            *events,
            *(frame | {"name": name, "begin": b} for name, b in zip(names, begins, strict=True)),
        ]

    rng_of_frames = random.Random(rng.random())
    atoms = [step(n, *products(random.Random(5)), _read()) for n in range(6)]
    return Program(UNKNOWN, atoms, disturb=unended)


def a_first_collective_that_waits(rng: random.Random) -> Program:
    """The first all-reduce waits until all ranks record: seconds, where the others take 14 us."""

    def reduce(ns: int) -> Any:
        args = {"Collective name": "allreduce", "In msg nelems": 4096, "dtype": "BFloat16"}
        op = Op("communication", ns, NAMES["communication"], args)
        return operator("nccl:all_reduce", 4 * US, Launch(6 * US, (op,)))

    rest = [a for each in products(random.Random(9))[:20] for a in (each, reduce(14 * US))]
    atoms = [
        reduce(rng.randint(2000, 17_000) * MS),
        *[a for n in range(5) for a in [step(n, *rest)]],
    ]
    return Program(UNKNOWN, [*atoms, Sync(2 * US)])


def gaps_inside_a_graph(rng: random.Random) -> Program:
    """Equal small gaps between the kernels of each replay, which the recorder may have made."""
    kernels = tuple(("memory-bandwidth", rng.randint(5, 8) * US) for _ in range(400))
    graph = operator("graph", 9 * US, Launch(90 * US, kernels, name="cudaGraphLaunch"))
    atoms = [step(n, graph, Work(40 * US)) for n in range(8)] + [Sync(2 * US)]
    return Program(UNKNOWN, atoms, Machine(gap_ns=(1_900, 2_100)))


# -- waits, copies, stalls -------------------------------------------------------------------------


def a_wait_that_no_call_shows(rng: random.Random) -> Program:
    """The host spins until the device is done, in a range, without a call that waits."""
    atoms = []
    for n in range(6):
        wait = Slice("poll_until_done", "user_annotation", (Sync(2 * US),))
        atoms.append(step(n, *products(random.Random(rng.random())), wait))
    return Program(
        UNKNOWN, atoms, disturb=lambda es: [e for e in es if "Synchronize" not in e["name"]]
    )


def a_call_to_another_worker(rng: random.Random) -> Program:
    """A CPU's pipeline over RPC: most of the time, the worker waits for another."""
    away = Slice(
        f"rpc_async#forward(worker0 -> worker{rng.randint(1, 9)})", "cpu_op", (Work(40 * MS),)
    )
    product = operator("aten::addmm", rng.randint(2, 4) * MS, shapes=[[512, 512]] * 3)
    return Program(UNKNOWN, [step(n, *[product] * 4, away) for n in range(5)])


def copies_that_block(rng: random.Random) -> Program:
    """Nothing but pageable copies, both ways, at a fifth of what the link can do."""
    size = rng.randint(60, 160) * 1_000_000
    ns = int(size / rng.uniform(4.3, 4.9))
    copies = [
        operator("aten::copy_", 9 * US, BlockingCopy(90 * US, ns, name=name, bytes=size))
        for name in ("Memcpy HtoD (Pageable -> Device)", "Memcpy DtoH (Device -> Pageable)")
    ]
    return Program(UNKNOWN, [step(n, *copies) for n in range(6)])


def tensors_made_on_the_host(rng: random.Random) -> Program:
    """Each step makes random numbers on the CPU and copies them to the device."""
    size = 16_000_000

    def program(ns: int) -> list[Any]:
        made = operator("aten::randn", 3 * US, operator("aten::normal_", ns, shapes=[[4_000_000]]))
        copy = operator("aten::to", 2 * US, operator("aten::copy_", 4 * US, moved))
        return _step_of("step", *([made, copy] if ns else []), *_small(30, 100, "math"), _read())

    moved = BlockingCopy(300 * US, 2600 * US, bytes=size)
    faulty, mended = program(rng.randint(12, 30) * MS), program(0)
    share = gain(faulty, mended)[1]
    return Program(_saving((0.7 * share, share)), faulty)


def a_thread_that_did_not_run(rng: random.Random) -> Program:
    """Operators that take microseconds take milliseconds now and then: the thread was not run."""
    ops = []
    for _ in range(600):
        stalled = rng.random() < 0.03
        ns = rng.randint(4, 30) * MS if stalled else 14 * US
        ops.append(operator("aten::add", ns, Launch(4 * US, (("memory-bandwidth", 9 * US),))))
    return Program(UNKNOWN, [step(n, *ops[n * 100 : (n + 1) * 100]) for n in range(6)])


# -- unknowns that can be known, and turns
# ----------------------------------------------------------


def the_last_wait_is_short(rng: random.Random) -> Program:
    """No op was recorded; the last synchronize waits for little, so the host was late."""
    atoms = [*_small(rng.randint(300, 500), 9, host=40), Sync(2 * US)]
    return Program(UNKNOWN, atoms, disturb=lambda es: [e for e in es if not _is_gpu(e)])


def a_queue_full_before(rng: random.Random) -> Program:
    """A copy that blocks begins with the recording and lasts until the device drains."""
    before = [operator("aten::mm", 5 * US, Launch(4 * US, (("math", 9 * MS),)))] * rng.randint(
        30, 60
    )
    copy = operator("aten::copy_", 4 * US, BlockingCopy(4 * US, 2 * US, bytes=120))
    atoms = [*before, copy, *products(random.Random(2)), Sync(2 * US)]

    def recorded(events: Events) -> Events:
        begin = min(e["begin"] for e in events if e["name"] == "cudaMemcpyAsync")
        kept = [e for e in events if e["begin"] >= begin - 20 * US]
        calls = {e["args"].get("correlation") for e in kept if e["cat"] == "cuda_runtime"}
        return [e for e in kept if not _is_gpu(e) or e["args"]["correlation"] in calls]

    return Program(UNKNOWN, atoms, disturb=recorded)


def taking_turns(rng: random.Random) -> Program:
    """Host and device work one after the other, each for half of the step."""
    us = rng.randint(3000, 6000)
    kernel = operator("aten::mm", 10 * US, Launch(4 * US, (("math", us * US),)))
    atoms = _step_of("step", kernel, _read(), line("metrics.py(3): f1", Work(us * US)), count=8)
    return Program(UNKNOWN, atoms)


# -- cut files, names of devices, advice already followed ----------------------------------


def a_cut_file(rng: random.Random) -> Program:
    """The file breaks off before the GPU's events, which a profiler writes last."""
    atoms = [step(n, *products(random.Random(5)), _read()) for n in range(6)]

    def sorted_by_side(events: Events) -> Events:
        return sorted(events, key=_is_gpu)

    return Program(UNKNOWN, atoms, disturb=sorted_by_side, written=rng.uniform(0.3, 0.6))


def a_device_by_another_name(rng: random.Random) -> Program:
    """Products whose shapes show their limit, on a device whose name resembles a known one."""
    # With the time that 137 GFLOP take at 80 % of its peak in fp32.
    devices = {"NVIDIA H800": 2600, "NVIDIA A100-PG509-210": 8800, "GeForce RTX 2080 Ti": 12_800}
    name, us = rng.choice([*devices.items()])
    sizes = [[4096, 4096], [4096, 4096]]
    product = operator(
        "aten::mm", 10 * US, Launch(4 * US, (("math", us * US),)), shapes=sizes
    )  # fmt: skip
    atoms = _step_of("step", *[product] * rng.randint(5, 9))
    return Program(UNKNOWN, atoms, metadata={"deviceProperties": [{"id": 0, "name": name}]})


def compiled_already(rng: random.Random) -> Program:
    """Kernels that the compiler wrote, launched by its wrapper: nothing is left to compile."""
    kernels = [Op("memory-bandwidth", 5 * US, f"triton_poi_fused_add_mul_{n}") for n in range(40)]
    host_us = rng.randint(20, 40)
    calls = [operator("triton_", host_us * US, Launch(4 * US, (each,))) for each in kernels]
    compiled = Slice("Torch-Compiled Region: 0/0", "cpu_op", tuple(calls))
    return Program(UNKNOWN, _step_of("step", compiled, _read()))


def programs() -> Iterator[Program]:
    """Each kind of cases/misleading.toml, by the function of that name, at several seeds."""
    known = {case.name: case for case in labels("misleading")}
    for name in known:
        function = name.replace(" ", "_")
        for seed in range(SEEDS):
            program: Program = globals()[function](random.Random(f"{function} {seed}"))
            case = replace(known[name], name=f"{name}, {seed}")
            if case.regime == ("simulated",):
                case = replace(case, regime=regime(program.atoms))
            if program.case.saves:
                case = replace(case, saves=program.case.saves)
            yield replace(program, case=case, seed=seed)
