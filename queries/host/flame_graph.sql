-- question: Which call paths take the host's time, and which launch the device's?
-- param trace (integer, default all): the trace_id to look at
-- param from_ns (integer, default all): only slices that begin at or after this
-- param to_ns (integer, default all): only slices that begin before this
-- column trace_id (id): the trace
-- column node (id): the call path
-- column parent (id): the path without its last frame; NULL: the frame is a thread
-- column depth (count): frames around it
-- column name (text): the last frame: a thread, Python line, module, operator or call; steps count as one
-- column kind (text): thread, python, annotation, cpu_op, runtime ...
-- column count (count): how often
-- column host_ns (ns): sum of its durations
-- column gpu_ns (ns): sum of the GPU ops launched inside it
-- column host_from_ns (ns): where a drawing of host time begins the frame, from the left
-- column gpu_from_ns (ns): the same of a drawing of GPU time
-- doubts: no_operators, no_stacks, unlinked_gpu_ops
-- Paths below thresholds().drawn_share of both times are left out. Flame graphs: Gregg 2016
-- (https://doi.org/10.1145/2909476).
WITH chosen AS (SELECT trace_id FROM trace WHERE trace_id = coalesce(getvariable('trace'), trace_id)),
path AS MATERIALIZED (FROM call_paths('chosen', getvariable('from_ns'), getvariable('to_ns')))
SELECT trace_id, node, parent, depth, name, kind, count, host_ns, gpu_ns, host_from_ns, gpu_from_ns
FROM laid_out('path') ORDER BY trace_id, depth, host_from_ns, gpu_from_ns, node
