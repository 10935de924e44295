"""Kinds of trace that mislead a careless reader; the truth about each is known."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tests.bench.diagnosis.healthy import SINGLE, products, read_item
from tests.bench.diagnosis.programs import Events, Program, gain, regime
from tests.bench.diagnosis.score import Case, case_of
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
from tests.kit.simulator import HOST, MAIN, Machine, trace_event
from tests.kit.traces import GPU_CATEGORIES

SEEDS = 3
KINDS: list[tuple[Case, Callable[[random.Random], Program]]] = []


def kind(regime: str = "", **facts: Any) -> Callable[[Any], Any]:
    """Adds a kind with these known facts; its name and reason are those of the function. A regime
    "simulated" comes from the simulator, and so does a saving that the program gives."""

    def add(made: Any) -> Any:
        name, why = made.__name__.replace("_", " "), " ".join(made.__doc__.split())
        KINDS.append((case_of("misleading", name, why, regime=regime, **facts), made))
        return made

    return add


def _step_of(name: str, *atoms: Any, count: int = 5) -> list[Any]:
    return [step(n, line(f"train.py(12): {name}", *atoms)) for n in range(count)] + [Sync(2 * US)]


def _small(count: int, us: int, cause: str = "memory-bandwidth", host: int = 12) -> list[Any]:
    kernel = (cause, us * US)
    return [operator("aten::add", host * US, Launch(4 * US, (kernel,)))] * count


def _ahead() -> list[Any]:
    """Steps of products that the host launches ahead, and waits for at their ends."""
    return [step(n, *products(random.Random(5)), read_item()) for n in range(6)]


def _is_gpu(event: dict[str, Any]) -> bool:
    return event["cat"] in GPU_CATEGORIES


@kind(
    "overhead-bound", causes="python input",
    changes="dataloader_workers python_lines preprocessing", never="math cuda_graph",
    confidence="medium",
)  # fmt: skip
def work_before_the_first_op(rng: random.Random) -> Program:
    """Each marked step prepares its images in Python before its first op."""

    def program(ns: int) -> list[Any]:
        prepare = line("data.py(390): normalize", Work(ns))
        return _step_of("step", prepare, *products(random.Random(7)), Sync(2 * US), count=count)

    ns, count = rng.randint(14, 30) * MS, rng.choice([1, 5, 5])
    faulty, mended = program(ns), program(50 * US)
    return Program(faulty, saves=gain(faulty, mended)[1:] * 2)


@kind(
    "overhead-bound", causes="input", changes="dataloader_workers", never="cuda_graph",
    confidence="medium", says=("input",),
)  # fmt: skip
def one_step_of_many_passes(rng: random.Random) -> Program:
    """One marked step holds equal passes, each with its own preprocessing in the loader."""
    load = Slice(SINGLE, "user_annotation", (Work(rng.randint(12, 20) * MS, "input"),))
    passes = [load, *products(random.Random(7))[:12], read_item()] * 6
    bare = [each for each in passes if each is not load]
    faulty, mended = [step(0, *passes)], [step(0, *bare)]
    return Program(faulty, saves=gain(faulty, mended))


@kind("overhead-bound", causes="python", changes="python_lines", never="compute-bound warm_up")
def repetitions_in_one_range(rng: random.Random) -> Program:
    """A range that occurs once holds all the repetitions of the work."""
    turn = [line("serve.py(8): tokenize", Work(rng.randint(2, 4) * MS)), *_small(8, 60)]
    turn.append(read_item())
    atoms = [*_small(4, 30), Slice("evaluate", "user_annotation", tuple(turn * 17)), Sync(2 * US)]
    bare = [*_small(4, 30), Slice("evaluate", "user_annotation", tuple(turn[1:] * 17))]
    return Program(atoms, saves=gain(atoms, bare))


@kind(listed="allocator", never="warm_up cuda_graph")
def allocator_under_pressure(rng: random.Random) -> Program:
    """In some steps after the first, the allocator frees its memory and allocates it again."""
    calls = [
        Call(name, rng.randint(900, 2000) * US, "allocation") for name in ("cudaFree", "cudaMalloc")
    ]
    retry = [each for call in calls for each in [call] * 5]
    work = [*products(random.Random(3))[:20], read_item()]
    atoms = [step(n, *(retry if n in (2, 5) else []), *work) for n in range(8)]
    return Program(atoms)


@kind("simulated", never="cuda_graph cuda_graph_parts")
def graph_already(rng: random.Random) -> Program:
    """A graph carries nearly all launches; the host prepares a batch before each replay."""
    kernels = tuple(("memory-bandwidth", rng.randint(12, 30) * US) for _ in range(300))
    graph = operator("graph", 9 * US, Launch(200 * US, kernels, name="cudaGraphLaunch"))
    prepare = line("scheduler.py(30): prepare_batch", Work(500 * US), *_small(6, 4, host=30))
    return Program(_step_of("decode", prepare, graph, Sync(2 * US)))


@kind("simulated", changes="sync_by_line data_dependent_sizes", never="cuda_graph")
def reads_that_later_work_needs(rng: random.Random) -> Program:
    """Sizes are read again and again in a step, so no graph can hold it; the reads are to go."""
    ns = rng.randint(20, 40)
    size = BlockingCopy(4 * US, 2 * US, name="Memcpy DtoH (Device -> Pageable)", bytes=8)
    read = operator("aten::item", US, operator("aten::_local_scalar_dense", US, size))
    chunk = _small(3, ns, "math", host=14)
    faulty = _step_of("route", *[*chunk, line("moe.py(40): split_sizes", read)] * 40)
    mended = _step_of("route", *chunk * 40)
    return Program(faulty, saves=gain(faulty, mended))


@kind(changes="warm_up", never="cuda_graph larger_batch", confidence="low")
def a_first_pass(rng: random.Random) -> Program:
    """One first pass loads each kernel's code: calls of a millisecond, no repetition."""
    ops = []
    for n in range(120):
        load = Call("cudaFuncGetAttributes", rng.randint(400, 1500) * US, "launch")
        kernel = Op("memory-bandwidth", 30 * US, f"void at::native::kernel_{n}")
        ops.append(operator(f"aten::op_{n}", 10 * US, load, Launch(60 * US, (kernel,))))
    return Program([*ops, Sync(2 * US)])


@kind(
    "unknown", changes="none allocator", never="compute-bound cuda_graph larger_batch",
    confidence="low", says=("No work of a model was recorded",),
)  # fmt: skip
def only_setup(rng: random.Random) -> Program:
    """The set-up was recorded in place of the work: allocations and synchronizations, no op."""
    calls = [Call("cudaMalloc", rng.randint(80, 400) * US, "allocation") for _ in range(30)]
    atoms = [step(n, *calls, Call("cudaDeviceSynchronize", 9 * US, "sync")) for n in range(3)]
    return Program(atoms)


@kind(
    "unknown compute-bound", changes="none", never="overhead-bound cuda_graph python launch",
    confidence="low", says=("have no kernels",),
)  # fmt: skip
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

    return Program([graph, Sync(2 * US)] * 20, lose=dropped)


@kind(
    "compute-bound unknown", changes="none", never="overhead-bound cuda_graph", confidence="medium",
    says=("have no kernels",),
)  # fmt: skip
def kernels_dropped_at_the_start(rng: random.Random) -> Program:
    """The ops of the first launches are missing: they ran, and their records were thrown away."""
    share = rng.uniform(0.5, 0.8)

    def dropped(events: Events) -> Events:
        launched = sorted(e["args"]["correlation"] for e in events if _is_gpu(e))
        first = launched[int(len(launched) * share)]
        return [e for e in events if not _is_gpu(e) or e["args"]["correlation"] >= first]

    return Program(_ahead(), lose=dropped)


@kind("compute-bound", changes="none", never="python python_lines overhead-bound")
def calls_that_never_end(rng: random.Random) -> Program:
    """Frames of C calls that all end when the profiler stops, across all later events."""

    def unended(events: Events) -> Events:
        stop = max(round(1000 * (e["ts"] + e["dur"])) for e in events)
        host = sorted({round(1000 * e["ts"]) for e in events if not _is_gpu(e)})
        frame = {"cat": "python_function", "pid": HOST, "tid": MAIN, "end": stop, "args": {}}
        names = ["<built-in method forward of type object>", "<built-in method apply>"] * 6
        begins = zip(names, rng_of_frames.sample(host, 12), strict=True)
        return [*events, *(trace_event(frame | {"name": n, "begin": b}) for n, b in begins)]

    rng_of_frames = random.Random(rng.random())
    return Program(_ahead(), lose=unended)


@kind(
    "compute-bound", changes="none",
    never="communication overhead-bound overlap_communication waiting_for_a_rank",
)  # fmt: skip
def a_first_collective_that_waits(rng: random.Random) -> Program:
    """The first all-reduce waits until all ranks record: seconds, where the others take 14 us."""

    def reduce(ns: int) -> Any:
        args = {"Collective name": "allreduce", "In msg nelems": 4096, "dtype": "BFloat16"}
        op = Op("communication", ns, NAMES["communication"], args)
        return operator("nccl:all_reduce", 4 * US, Launch(6 * US, (op,)))

    rest = [a for each in products(random.Random(9))[:20] for a in (each, reduce(14 * US))]
    first = reduce(rng.randint(2000, 17_000) * MS)
    return Program([first, *(step(n, *rest) for n in range(5)), Sync(2 * US)])


@kind("compute-bound", changes="none", never="overhead-bound launch cuda_graph")
def gaps_inside_a_graph(rng: random.Random) -> Program:
    """Equal small gaps between the kernels of each replay, which the recorder may have made."""
    kernels = tuple(("memory-bandwidth", rng.randint(5, 8) * US) for _ in range(400))
    graph = operator("graph", 9 * US, Launch(90 * US, kernels, name="cudaGraphLaunch"))
    atoms = [step(n, graph, Work(40 * US)) for n in range(8)] + [Sync(2 * US)]
    return Program(atoms, Machine(gap_ns=(1_900, 2_100)))


@kind(
    "compute-bound", changes="none", never="overhead-bound python dispatch cuda_graph",
    says=("The GPU holds this run up",),
)  # fmt: skip
def a_wait_that_no_call_shows(rng: random.Random) -> Program:
    """The host spins until the device is done, in a range, without a call that waits."""
    wait = Slice("poll_until_done", "user_annotation", (Sync(2 * US),))
    atoms = [step(n, *products(random.Random(rng.random())), wait) for n in range(6)]
    return Program(atoms, lose=lambda es: [e for e in es if "Synchronize" not in e["name"]])


@kind(
    causes="communication", never="python python_lines overhead-bound", confidence="medium",
    says=("other ranks or workers",),
)  # fmt: skip
def a_call_to_another_worker(rng: random.Random) -> Program:
    """A CPU's pipeline over RPC: most of the time, the worker waits for another."""
    name = f"rpc_async#forward(worker0 -> worker{rng.randint(1, 9)})"
    away = Slice(name, "cpu_op", (Work(40 * MS),))
    product = operator("aten::addmm", rng.randint(2, 4) * MS, shapes=[[512, 512]] * 3)
    return Program([step(n, *[product] * 4, away) for n in range(5)])


@kind(
    "compute-bound", causes="copy", changes="pinned_copies", never="cuda_graph launch",
    saves=(0.6, 0.85), says=("Copies hold this run up",),
)  # fmt: skip
def copies_that_block(rng: random.Random) -> Program:
    """Nothing but pageable copies, both ways, at a fifth of what the link can do."""
    size = rng.randint(60, 160) * 1_000_000
    ns = int(size / rng.uniform(4.3, 4.9))
    copies = [
        operator("aten::copy_", 9 * US, BlockingCopy(90 * US, ns, name=name, bytes=size))
        for name in ("Memcpy HtoD (Pageable -> Device)", "Memcpy DtoH (Device -> Pageable)")
    ]
    return Program([step(n, *copies) for n in range(6)])


@kind(
    "overhead-bound", changes="tensors_on_device create_on_device device_tensors pinned_copies",
    never="cuda_graph math",
)  # fmt: skip
def tensors_made_on_the_host(rng: random.Random) -> Program:
    """Each step makes random numbers on the CPU and copies them to the device."""
    size = 16_000_000

    def program(ns: int) -> list[Any]:
        made = operator("aten::randn", 3 * US, operator("aten::normal_", ns, shapes=[[4_000_000]]))
        copy = operator("aten::to", 2 * US, operator("aten::copy_", 4 * US, moved))
        work = [*_small(30, 100, "math"), read_item()]
        return _step_of("step", *([made, copy] if ns else []), *work)

    moved = BlockingCopy(300 * US, 2600 * US, bytes=size)
    faulty, mended = program(rng.randint(12, 30) * MS), program(0)
    share = gain(faulty, mended)[1]
    return Program(faulty, saves=(0.7 * share, share))


@kind("overhead-bound", never="cuda_graph torch_compile")
def a_thread_that_did_not_run(rng: random.Random) -> Program:
    """Operators that take microseconds take milliseconds now and then: the thread was not run."""
    ops = []
    for _ in range(600):
        ns = rng.randint(4, 30) * MS if rng.random() < 0.03 else 14 * US
        ops.append(operator("aten::add", ns, Launch(4 * US, (("memory-bandwidth", 9 * US),))))
    return Program([step(n, *ops[n * 100 : (n + 1) * 100]) for n in range(6)])


@kind(
    "overhead-bound", never="compute-bound sync", confidence="low",
    says=("GPU's work was not recorded",),
)  # fmt: skip
def the_last_wait_is_short(rng: random.Random) -> Program:
    """No op was recorded; the last synchronize waits for little, so the host was late."""
    atoms = [*_small(rng.randint(300, 500), 9, host=40), Sync(2 * US)]
    return Program(atoms, lose=lambda es: [e for e in es if not _is_gpu(e)])


@kind(
    "compute-bound unknown", changes="none",
    never="overhead-bound copy pinned_copies sync cuda_graph", confidence="medium",
)  # fmt: skip
def a_queue_full_before(rng: random.Random) -> Program:
    """A copy that blocks begins with the recording and lasts until the device drains."""
    launch = Launch(4 * US, (("math", 9 * MS),))
    before = [operator("aten::mm", 5 * US, launch)] * rng.randint(30, 60)
    copy = operator("aten::copy_", 4 * US, BlockingCopy(4 * US, 2 * US, bytes=120))
    atoms = [*before, copy, *products(random.Random(2)), Sync(2 * US)]

    def recorded(events: Events) -> Events:
        begin = min(e["ts"] for e in events if e["name"] == "cudaMemcpyAsync")
        kept = [e for e in events if e["ts"] >= begin - 20]
        calls = {e["args"].get("correlation") for e in kept if e["cat"] == "cuda_runtime"}
        return [e for e in kept if not _is_gpu(e) or e["args"]["correlation"] in calls]

    return Program(atoms, lose=recorded)


@kind("overhead-bound compute-bound", never="cuda_graph", confidence="low", says=("take turns",))
def taking_turns(rng: random.Random) -> Program:
    """Host and device work one after the other, each for half of the step."""
    us = rng.randint(3000, 6000)
    kernel = operator("aten::mm", 10 * US, Launch(4 * US, (("math", us * US),)))
    metrics = line("metrics.py(3): f1", Work(us * US))
    return Program(_step_of("step", kernel, read_item(), metrics, count=8))


@kind(
    "unknown", changes="none", never="compute-bound overhead-bound cuda_graph", confidence="low",
    says=("end is missing",),
)  # fmt: skip
def a_cut_file(rng: random.Random) -> Program:
    """The file breaks off before the GPU's events, which a profiler writes last."""
    written = rng.uniform(0.3, 0.6)
    return Program(_ahead(), lose=lambda es: sorted(es, key=_is_gpu), written=written)


@kind("compute-bound", causes="math", never="overhead-bound math-or-memory cuda_graph")
def a_device_by_another_name(rng: random.Random) -> Program:
    """Products whose shapes show their limit, on a device whose name resembles a known one."""
    # With the time that 137 GFLOP take at 80 % of its peak in fp32.
    devices = {"NVIDIA H800": 2600, "NVIDIA A100-PG509-210": 8800, "GeForce RTX 2080 Ti": 12_800}
    name, us = rng.choice([*devices.items()])
    sizes = [[4096, 4096], [4096, 4096]]
    launch = Launch(4 * US, (("math", us * US),))
    product = operator("aten::mm", 10 * US, launch, shapes=sizes)
    atoms = _step_of("step", *[product] * rng.randint(5, 9))
    return Program(atoms, metadata={"deviceProperties": [{"id": 0, "name": name}]})


@kind("overhead-bound", changes="cuda_graph compiler_options", never="torch_compile compute-bound")
def compiled_already(rng: random.Random) -> Program:
    """Kernels that the compiler wrote, launched by its wrapper: nothing is left to compile."""
    kernels = [Op("memory-bandwidth", 5 * US, f"triton_poi_fused_add_mul_{n}") for n in range(40)]
    host_us = rng.randint(20, 40)
    calls = [operator("triton_", host_us * US, Launch(4 * US, (each,))) for each in kernels]
    compiled = Slice("Torch-Compiled Region: 0/0", "cpu_op", tuple(calls))
    return Program(_step_of("step", compiled, read_item()))


def programs() -> Iterator[Program]:
    """A program of each kind at several seeds."""
    for case, made in KINDS:
        for seed in range(SEEDS):
            program = made(random.Random(f"{made.__name__} {seed}"))
            known = replace(case, name=f"{case.name}, {seed}", saves=case.saves or program.saves)
            if case.regime == ("simulated",):
                known = replace(known, regime=regime(program.atoms))
            yield replace(program, case=known, seed=seed)
