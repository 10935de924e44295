-- question: Which copies into and out of static buffers surround the CUDA graphs of compiled code?
-- since: 0.1
-- title: Write into the CUDA graph's own buffers
-- causes: memory-bandwidth, copy, dispatch, launch, python
-- when: compiled IN ('wrapper', 'generated')
-- effort: medium
-- needs: Inputs that stay at one address from call to call: parameters, buffers, and batches that are copied
--     into one tensor. Outputs that are used before the next replay.
-- caveat: An upper bound: all of these copies are assumed to go. A batch has to reach its buffer somehow.
-- before:
--     for batch in loader:
--         loss = compiled(batch.to("cuda"))        # copied once more, into the graph's buffer
-- after:
--     static = torch.empty_like(example)
--     torch._dynamo.mark_static_address(static)    # and parameters that the graph takes as inputs
--     for batch in loader:
--         static.copy_(batch, non_blocking=True)
--         loss = compiled(static)
-- risks: The next replay overwrites what was read from a buffer. A tensor at a new address is recorded again.
-- check: tracekit query after.json top_kernels; tracekit diff before.json after.json
-- sources: https://docs.pytorch.org/docs/stable/torch.compiler_cudagraph_trees.html
--     https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs
-- doubts: no_gpu_ops, no_runtime_calls, no_stacks
-- Copies that a compiled function makes by itself, not by code that the compiler wrote, around a replay.
WITH around AS (
    SELECT w.trace_id, w.event_id AS around_id FROM (
        SELECT trace_id, event_id, pid, tid, start_ns, end_ns FROM slices
        WHERE compiled IN ('wrapper', 'generated') AND is_asked(trace_id)) AS w
    JOIN (FROM launch_call WHERE is_graph) AS g ON w.trace_id = g.trace_id AND w.pid = g.pid AND w.tid = g.tid
        AND g.start_ns BETWEEN w.start_ns AND w.end_ns
    GROUP BY ALL
),
copying AS (
    SELECT c.trace_id, c.event_id, c.pid, c.tid, c.start_ns, c.dur_ns, c.name, around_id
    FROM cpu_ops AS c JOIN thread_slice AS h USING (trace_id, event_id)
    -- Python frames may be between the two.
    JOIN thread_slice AS p ON h.trace_id = p.trace_id AND h.parent_id = p.event_id
    JOIN around AS a ON p.trace_id = a.trace_id AND p.cpu_op_id = a.around_id
    WHERE c.name IN ('aten::copy_', 'aten::clone', 'aten::_foreach_copy_')
),
counted AS (SELECT *, count(*) OVER (PARTITION BY trace_id, around_id) AS copies FROM copying)
SELECT trace_id, place,
       format('copies a replay: {}', (median(copies) OVER (PARTITION BY trace_id, place))::BIGINT) AS detail,
       'call' AS target, event_id, pid, tid, start_ns, dur_ns, 0 AS factor
FROM counted LEFT JOIN call_site USING (trace_id, event_id)
