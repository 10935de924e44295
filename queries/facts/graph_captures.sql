-- fact: A capture of a graph, from the call that begins it to the call that ends it.
-- needs: slice_label
-- when: call = 'begin_capture'
-- https://docs.nvidia.com/cuda/cuda-c-programming-guide/#creating-a-graph-using-stream-capture
CREATE TABLE graph_captures (
    trace_id   INTEGER, -- the trace
    capture_id BIGINT,  -- the call that begins it
    pid BIGINT, tid BIGINT, start_ns BIGINT, end_ns BIGINT
);
SELECT trace_id, capture_id, pid, tid, start_ns, end_ns FROM (
    SELECT trace_id, pid, tid, event_id AS capture_id, start_ns, call = 'begin_capture' AS begins,
           lead(end_ns) OVER (PARTITION BY trace_id, pid, tid ORDER BY start_ns, event_id) AS end_ns
    FROM runtime_calls WHERE call IN ('begin_capture', 'end_capture')
)
WHERE begins AND end_ns IS NOT NULL
