-- fact: A thread of the host, numbered, with the start and end of its trace.
-- of: slice_thread, trace_span
CREATE TABLE host_thread (
    thread   INTEGER, -- its number, over all traces
    trace_id INTEGER, pid BIGINT, tid BIGINT, start_ns BIGINT, end_ns BIGINT,
    has_code BOOLEAN  -- operators or Python frames were recorded on it
);
SELECT row_number() OVER (ORDER BY trace_id, pid, tid)::INTEGER AS thread, trace_id, pid, tid, span.start_ns,
       span.end_ns, has_code
FROM _scratch.slice_thread JOIN trace_span AS span USING (trace_id) WHERE is_host
