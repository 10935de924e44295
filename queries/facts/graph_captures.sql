-- fact: A capture of a graph, from the call that begins it to the call that ends it.
-- needs: slice_label
-- when: call = 'begin_capture'
-- https://docs.nvidia.com/cuda/cuda-c-programming-guide/#creating-a-graph-using-stream-capture
CREATE TABLE graph_captures (
    trace_id INTEGER, capture_id BIGINT, -- the call that begins it
    pid BIGINT, tid BIGINT, start_ns BIGINT, end_ns BIGINT
);
SELECT trace_id, event_id, pid, tid, start_ns,
       lead(end_ns) OVER (PARTITION BY trace_id, pid, tid ORDER BY start_ns, event_id) AS until_ns
FROM runtime_calls WHERE call IN ('begin_capture', 'end_capture')
QUALIFY call = 'begin_capture' AND until_ns IS NOT NULL
