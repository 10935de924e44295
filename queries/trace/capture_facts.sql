-- question: What did `tracekit capture` record about the run: workload, sizes, step time, the profiler's
--     cost?
-- since: 0.1
-- column facts (JSON): the trace's own `tracekit` metadata; NULL for a trace that tracekit did not capture
SELECT trace_id, metadata->'tracekit' AS facts
FROM trace WHERE is_asked(trace_id)
ORDER BY trace_id
