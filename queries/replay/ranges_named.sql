-- question: When does the host run the annotated ranges with a name?
-- since: 0.1
-- param range (text, default ''): the ranges' name
-- columns name, pid, tid, start_ns, dur_ns
-- doubts: no_annotations
SELECT trace_id, name, pid, tid, start_ns, dur_ns
FROM annotations
WHERE side = 'host' AND name = coalesce(getvariable('range'), '') AND dur_ns > 0 AND is_asked(trace_id)
ORDER BY trace_id, start_ns, event_id
