-- question: Which call paths take host time, and which launch device work?
-- since: 0.1
-- params from_ns, to_ns
-- columns node, parent, depth, name
-- column kind (text): thread, python, annotation, cpu_op, runtime ...; gpu: a GPU op, below its launch;
--     replayed: a module or operator that a graph's replay ran, between its launch and its kernels
-- columns is_library, is_wait, count, host_ns, gpu_ns, host_from_ns, gpu_from_ns
-- doubts: no_operators, no_stacks, unlinked_gpu_ops
-- Paths below thresholds().drawn_share of both times are left out. See https://doi.org/10.1145/2909476
WITH chosen AS (SELECT trace_id FROM trace WHERE is_asked(trace_id)),
path AS MATERIALIZED (FROM call_paths('chosen', getvariable('from_ns'), getvariable('to_ns')))
SELECT trace_id, node, parent, depth, name, kind, is_library, is_wait, count, host_ns, gpu_ns, host_from_ns,
       gpu_from_ns
FROM laid_out('path') ORDER BY trace_id, depth, host_from_ns, gpu_from_ns, node
