#!/bin/sh
# Captures five workloads on this machine's GPU, at the default and at a small size, into
# tests/data/<device>/. Needs a CUDA or ROCm build of torch.
set -eu
bin=${BIN:-.venv/bin}
device=$("$bin/python" -c '
import re, sys, torch
if not torch.cuda.is_available():
    sys.exit("found no GPU: tests/data is unchanged")
print(re.sub(r"[^a-z0-9]+", "-", torch.cuda.get_device_name().lower()).strip("-"))')
folder=tests/data/$device
mkdir -p "$folder"
for name in linear mlp-eager mlp-compiled mlp-triton; do
    "$bin/tracekit" capture "$name" --device cuda -o "$folder/$name.json.gz"
    "$bin/tracekit" capture "$name" --device cuda --batch 1 --seq 16 --dim 64 --hidden 256 \
        -o "$folder/$name-small.json.gz"
done
"$bin/tracekit" capture matmul-add --device cuda --dim 4096 -o "$folder/matmul-add.json.gz"
"$bin/tracekit" capture matmul-add --device cuda --dim 64 -o "$folder/matmul-add-small.json.gz"
for trace in "$folder"/*.json.gz; do
    "$bin/tracekit" analyze "$trace" | head -n 1
done
