"""The names of the regimes, and what to try next for each bottleneck."""

OVERHEAD, COMPUTE, UNKNOWN = "overhead-bound", "compute-bound", "unknown"

NEXT = {
    "launch": "Launch less: capture the step as a CUDA graph "
    "(torch.compile(mode='reduce-overhead')), or fuse kernels.",
    "dispatch": "Dispatch less: torch.compile the model, or use fused and foreach operators.",
    "python": "Keep Python out of the loop: torch.compile, or move per-step logic out of it.",
    "sync": "Remove synchronisation from the loop: .item(), .cpu(), print of a tensor, "
    "torch.cuda.synchronize().",
    "copy": "Copy from pinned memory with non_blocking=True, on a separate stream.",
    "input": "Prefetch input: more DataLoader workers, a larger prefetch_factor, pinned memory.",
    "allocation": "Let the caching allocator settle: warm up before measuring, keep sizes stable, "
    "or set expandable_segments:True.",
    "compilation": "Compile before measuring: warm up with every shape that the run uses.",
    "communication": "Overlap communication with compute: larger buckets, an earlier start, "
    "or a different sharding.",
    "memory-bandwidth": "Move fewer bytes: fuse neighbouring elementwise kernels, "
    "or use a smaller dtype.",
    "math": "Do less arithmetic, or do it in a faster dtype; faster kernels pay off here.",
    "math-or-memory": "Faster kernels pay off here. Record shapes (record_shapes=True) to learn "
    "whether they need less arithmetic or fewer bytes.",
    "latency": "Give each kernel more work, or fuse small ones; `tracekit query idle_gaps` lists "
    "the longest gaps.",
}
