-- fact: A call that launched GPU ops, and the number of ops that its thread had launched so far.
-- of: gpu_ops
CREATE TABLE launch_call (
    trace_id INTEGER, launch_id BIGINT, -- the call
    pid BIGINT, tid BIGINT, start_ns BIGINT, end_ns BIGINT,
    op_id           BIGINT,  -- the last of its GPU ops in the file; usually, only graphs have several
    is_graph        BOOLEAN, -- it launched a graph
    is_blocking     BOOLEAN, -- it returned only after that op, a copy, was done
    can_be_captured BOOLEAN, -- a graph could replace it
    gpu_ops         BIGINT,  -- launched by its thread so far, itself included
    kernels         BIGINT,  -- the kernels among them
    gpu_ns          BIGINT   -- the sum of their durations
);
SELECT trace_id, launch_id, pid, tid, launch_start_ns, launch_end_ns, event_id, is_graph, is_blocking,
       can_be_captured, row_number() OVER by_start,
       sum((kind = 'kernel')::INTEGER) OVER so_far, TRY_CAST(sum(dur_ns) OVER so_far AS BIGINT)
FROM gpu_ops WHERE launch_id IS NOT NULL
WINDOW by_start AS (PARTITION BY trace_id, pid, tid ORDER BY launch_start_ns, launch_id, event_id),
       so_far AS (by_start ROWS UNBOUNDED PRECEDING)
QUALIFY lead(launch_id) OVER by_start IS DISTINCT FROM launch_id
