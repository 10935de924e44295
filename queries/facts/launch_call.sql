-- fact: A call that launched GPU ops, and what its thread had launched when it returned.
-- needs: gpu_op_launch
-- of: gpu_ops
CREATE TABLE launch_call (
    trace_id        INTEGER, -- the trace
    launch_id       BIGINT,  -- the call
    pid BIGINT, tid BIGINT, start_ns BIGINT, end_ns BIGINT,
    first_op_id     BIGINT,  -- the first GPU op that it launched, by its place in the file
    is_graph        BOOLEAN, -- it launched a graph
    is_blocking     BOOLEAN, -- it did not return before a copy was done
    can_be_captured BOOLEAN, -- a graph could do it
    gpu_ops         BIGINT,  -- launched by its thread so far, itself included
    kernels         BIGINT,  -- those of them that are kernels
    gpu_ns          BIGINT   -- the sum of their durations
);
WITH call AS (
    SELECT
        trace_id, launch_id, any_value(pid) AS pid, any_value(tid) AS tid,
        any_value(launch_start_ns) AS start_ns, any_value(launch_end_ns) AS end_ns,
        min(event_id) AS first_op_id, any_value(l.is_graph) AS is_graph, bool_or(l.is_blocking) AS is_blocking,
        any_value(l.can_be_captured) AS can_be_captured, count(*) AS gpu_ops,
        count(*) FILTER (l.kind = 'kernel') AS kernels, sum(dur_ns) AS gpu_ns
    FROM gpu_op_launch AS l JOIN gpu_ops AS op USING (trace_id, event_id) GROUP BY trace_id, launch_id
)
SELECT trace_id, launch_id, pid, tid, start_ns, end_ns, first_op_id, is_graph, is_blocking, can_be_captured,
       (sum(gpu_ops) OVER so_far)::BIGINT AS gpu_ops, (sum(kernels) OVER so_far)::BIGINT AS kernels,
       (sum(gpu_ns) OVER so_far)::BIGINT AS gpu_ns
FROM call WINDOW so_far AS (PARTITION BY trace_id, pid, tid ORDER BY start_ns)
