-- fact: A capture of a graph, from the call that begins it to the call that ends it; a recording may cut it.
-- needs: slice_label, trace_span
-- when: call IN ('begin_capture', 'end_capture')
-- https://docs.nvidia.com/cuda/cuda-c-programming-guide/#creating-a-graph-using-stream-capture
CREATE TABLE graph_captures (
    trace_id INTEGER, capture_id BIGINT, -- the call that begins it; if that is not recorded, the last one
    pid BIGINT, tid BIGINT, start_ns BIGINT, end_ns BIGINT
);
SELECT trace_id, event_id, pid, tid, if(call = 'begin_capture', c.start_ns, t.start_ns),
       if(call = 'end_capture', c.end_ns, coalesce(lead(c.end_ns) OVER calls, t.end_ns))
FROM runtime_calls AS c JOIN trace_span AS t USING (trace_id) WHERE call IN ('begin_capture', 'end_capture')
WINDOW calls AS (PARTITION BY trace_id, pid, tid ORDER BY c.start_ns, event_id)
QUALIFY call = 'begin_capture' OR lag(call) OVER calls IS NULL
