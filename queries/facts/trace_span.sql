-- fact: A trace's time from the first host slice or GPU op to the last.
-- of: slice_thread
-- needs: gpu_ops
CREATE TABLE trace_span (
    trace_id INTEGER, start_ns BIGINT, end_ns BIGINT
);
SELECT trace_id, min(start_ns) AS start_ns, max(end_ns) AS end_ns FROM (
    SELECT trace_id, start_ns, end_ns FROM _scratch.slice_thread WHERE is_host
    UNION ALL
    SELECT trace_id, start_ns, end_ns FROM gpu_ops
) GROUP BY trace_id
