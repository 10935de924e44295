"""A compiled module breaks its graph at a line; in the twin, it is one region."""

from tests.kit.atoms import US, Launch, Slice, Sync, Work, line, operator, step

PLACE = "model.py(57): forward"
STEPS, BLOCKS = 4, 8


def _region(number, *atoms):
    return [
        operator("TorchDynamo Cache Lookup", 25 * US),
        operator(
            f"Torch-Compiled Region: {number}/0",
            2 * US,
            operator("Pregraph bytecode", 9 * US),
            *atoms,
        ),
    ]


def _half():
    kernel = ("memory-bandwidth", 3 * US)
    return [operator("triton_poi_fused_add_0", 6 * US, Launch(4 * US, (kernel,)))] * 4


def _program(block):
    return [step(n, *block * BLOCKS, Work(4 * US), Sync(2 * US)) for n in range(STEPS)]


RESUMES = line("model.py(57): torch_dynamo_resume_in_forward_at_57", *_half())
FAULTY = _program(_region(0, *_half(), Work(4 * US, "dispatch"), *_region(1, RESUMES)))
WHOLE = Slice("CompiledFunction", "cpu_op", (Work(6 * US, "dispatch"), *_half(), *_half()))
FIXED = _program(_region(0, WHOLE))
