-- fact: A capture of a graph, from the call that begins it, or the recording's start, to its last call.
-- needs: slice_label, trace_span
-- when: call IN ('begin_capture', 'end_capture')
-- https://docs.nvidia.com/cuda/cuda-c-programming-guide/#creating-a-graph-using-stream-capture
CREATE TABLE graph_captures (
    trace_id INTEGER, capture_id BIGINT, -- the call that begins it; if that is not recorded, the last one
    pid BIGINT, tid BIGINT, start_ns BIGINT, end_ns BIGINT
);
SELECT trace_id, event_id, pid, tid, if(call = 'begin_capture', c.start_ns, t.start_ns),
       if(call = 'begin_capture', lead(c.end_ns) OVER calls, c.end_ns) AS until_ns
FROM runtime_calls AS c JOIN trace_span AS t USING (trace_id) WHERE call IN ('begin_capture', 'end_capture')
WINDOW calls AS (PARTITION BY trace_id, pid, tid ORDER BY c.start_ns, event_id)
QUALIFY until_ns IS NOT NULL AND (call = 'begin_capture' OR lag(call) OVER calls IS NULL)
