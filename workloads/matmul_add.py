"""`a @ b + c`: two operators. Small matrices are overhead-bound, large ones compute-bound."""

from tracekit.workloads.base import Shape, Workload


def build(shape: Shape) -> Workload:
    """Square matrices of size `dim`."""
    n = shape.dim
    a, b, c = (shape.random(n, n, seed=seed) for seed in range(3))
    return Workload(
        step=lambda: a @ b + c,
        reference=lambda: a.float() @ b.float() + c.float(),
        variant="eager",
    )
