"""torch.compile captures the same graph in every other pass; the twin replays the first one."""

from tests.kit.atoms import MS, US, Call, Launch, Sync, Work, operator

PLACE = "CompiledFunction"
PASSES = 10


def _program(captures):
    captured = [Call("cudaLaunchKernel", 5 * US, "launch")] * 20
    capture = (
        Work(20 * MS, "dispatch"), Call("cudaStreamBeginCapture", 9 * US, "launch"), *captured,
        Call("cudaStreamEndCapture", 9 * US, "launch"),
        Call("cudaGraphInstantiateWithFlags", 2 * MS, "compilation"),
    )  # fmt: skip
    ops = (operator("aten::copy_", 9 * US, Launch(6 * US, (("memory-bandwidth", 9 * US),))),) * 3
    replay = Launch(40 * US, (("math", 50 * US),) * 20, name="cudaGraphLaunch")
    return [
        atom
        for number in range(PASSES)
        for atom in (
            operator(
                PLACE, 9 * US, *(capture if captures and number % 2 == 0 else ()), *ops, replay
            ),
            Sync(2 * US),
        )
    ]


FAULTY, FIXED = _program(captures=True), _program(captures=False)
