"""Twenty programs as users write them, each with the changes that a user would try first.

    python -m tests.bench.programs measure NAME --device cpu --folder FOLDER
    python -m tests.bench.programs screens FOLDER
    python -m tests.bench.programs table FOLDER

`measure` records one program and times it with each change (measure.py). Afterwards and without a
GPU, `screens` writes the first screens, to be marked in marks.csv with the raw trace open; `table`
prints what was promised beside what was observed, for marked programs only (judge.py).
"""

# The program of JAX, which has no step of PyTorch: jitted.py.
JITTED = "jitted-step"
# All programs, in the order in which they run.
NAMES = (
    "transformer-with-gradient-accumulation", "cnn-with-a-slow-loader", "gan-with-two-optimizers",
    "recurrent-net", "diffusion-unet", "lora-fine-tuning", "fsdp-on-one-rank",
    "compiled-with-graph-breaks", "mixed-precision-with-a-scaler", "generate-with-a-static-cache",
    "generate-with-a-dynamic-cache", "prefill-and-decodes", "served-loop-with-cuda-graphs",
    "cnn-left-in-training-mode", "attention-in-fp32", "embedding-with-a-tokenizer",
    "speculative-decoding", "benchmark-loop-with-one-sync", "many-small-kernels", JITTED,
)  # fmt: skip
