"""Names of events' arguments that SQL reads: each is spelled as its writer spells it."""

import re
from pathlib import Path

QUERIES = Path(__file__).parents[2] / "queries"
_READ = re.compile(r"\b(?:args|raw)\s*->>?\s*'([^'$]+)'")
# Several names at once, in a list; a path begins with $.
_LISTED = re.compile(r"\b(?:args|raw)\s*->>?\s*\[([^]]+)\]")
_NAME = re.compile(r"'(?:\$\.(\w+)[^']*|([^']+))'")
# github.com/pytorch/kineto: libkineto/include/MetadataFieldCatalog.h, in October 2026. Only names
# that are read.
KINETO = {
    "Input Dims", "Input type", "Sequence number", "Addr", "Device Id", "Python id",
    "Python parent id", "Collective name", "dtype", "In msg nelems", "Out msg nelems",
    "In split size", "Out split size", "Group size", "Process Group Name", "Process Group Ranks",
    "Src Rank", "Dst Rank", "Seq", "Comms Id", "block", "blocks per SM", "bytes",
    "est. achieved occupancy %", "graph id", "graph node id", "grid", "occupancy",
    "registers per thread", "shared memory", "stream", "wait_on_cuda_event_record_corr_id",
    "wait_on_stream", "kind", "kernel",
}  # fmt: skip
# Names of other writers.
OTHERS = {
    "PyTorch 2.15, torch/profiler/_cuspy": {
        "copy kind", "src kind", "dst kind", "original_stream", "original graph node id",
    },
    "PyTorch 1.x, a collective's arguments": {"Process Group ID"},
    "torch.cuda.graph(enable_annotations=True)": {"annotation", "autograd_phase", "module_fqn"},
    "rocprofv3": {"direction", "size"},
    "torch.compile, its chromium events": {"compile_id"},
    "Chrome's format": {"name", "pid"},
    "tracekit's reader of memory snapshots": {
        "address", "allocated", "depth", "device_free", "expandable", "file", "function", "line",
        "parent", "pool", "requested", "reserved", "segment", "stack", "state",
    },
    "tracekit's reader of Proton's trees": {"count", "path", "time_ns", "bytes"},
}  # fmt: skip


def names_in(sql: str) -> list[str]:
    listed = (each for names in _LISTED.findall(sql) for each in _NAME.findall(names))
    return [*_READ.findall(sql), *(of_path or name for of_path, name in listed)]


def test_each_argument_is_spelled_as_its_writer_spells_it():
    read = {
        name
        for path in QUERIES.rglob("*.sql")
        for name in names_in(path.read_text(encoding="utf-8"))
    }
    known = KINETO.union(*OTHERS.values())
    assert read - known == set()
    # And no name is listed that nothing reads.
    assert known - read == set()
