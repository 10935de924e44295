"""Faults of servers, whose steps are graphs that generate tokens."""

from tests.controls.planting import SYNC, planted
from tests.kit.atoms import MS, US, Launch, Op, Slice, Work, line, operator

BF16, FP8 = "nvjet_sm80_tst_64x8_64x16_1x4_h_bz_TNT", "nvjet_fp8_e4m3_tst_64x8_64x16_1x4_h_bz_TNT"


def paged_attention(ns, dtype="bf16"):
    return Op("math", ns, f"void paged_attention_v1_kernel<{dtype}>")


def replayed(*kernels, dispatch_ns=12 * US):
    """A graph with these kernels in each of 20 layers."""
    return operator("graph", dispatch_ns, Launch(9 * US, kernels * 20, name="cudaGraphLaunch"))


def generating(requests, *atoms):
    name = f"execute_{requests}_context_0(sq0sk0)_generation_{requests}(sq{requests}sk900)"
    return [Slice(name, "user_annotation", atoms), SYNC, Work(5 * US)]


@planted(None, faulty=(8, 8, 1), fixed=(4, 40, 2))
def decode_batch(count, requests, times):
    """A server's steps generate for few requests; in the twin, half as many steps generate for
    twice as many: products read the same weights, attention takes twice as long."""
    attention = paged_attention(20 * US * times, "__nv_bfloat16")
    return generating(requests, replayed(Op("math", 60 * US, BF16), attention)) * count


@planted(None, faulty=(BF16, 60 * US), fixed=(FP8, 30 * US))
def quantized_weights(name, ns):
    """A server's steps generate for few requests with 16-bit weights; in the twin, with 8-bit
    ones."""
    return generating(8, replayed(Op("math", ns, name), paged_attention(9 * US))) * 6


@planted(None, faulty=([Work(300 * US)], []), fixed=([], [Work(300 * US)]))
def overlapped_scheduling(before, after):
    """A server prepares each step after the last one; in the twin, it does so while the device
    works."""
    graph = replayed(paged_attention(30 * US), dispatch_ns=US)
    return [*before, Slice("step[DECODE bs=32]", "user_annotation", (graph, *after)), SYNC] * 6


def answered(detokenizing_ns):
    """A front end handles the tokens of a step: it detokenizes and streams them."""
    return line(
        "vllm/v1/engine/async_llm.py(640): output_handler",
        Work(20 * US),
        line("vllm/v1/engine/detokenizer.py(120): update", Work(detokenizing_ns)),
        line("starlette/responses.py(250): stream_response", Work(100 * US)),
    )


def looped(*atoms):
    """An event loop, and its waits for sockets."""
    return [line("asyncio/base_events.py(1910): _run_once", *atoms)]


def waited(ns):
    return line("selectors.py(451): select", Work(ns, "wait"))


@planted(None, faulty=(64, 9 * US), fixed=(32, 9 * MS))
def more_front_ends(answers, idle_ns):
    """A server's front end always detokenizes and answers; in the twin, it does so for every other
    request, since there are two, and then waits for more."""
    return looped(*[answered(300 * US)] * answers, waited(idle_ns))
