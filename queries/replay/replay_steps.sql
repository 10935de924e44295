-- question: Which steps, or else which ranges, does a run consist of?
-- since: 0.1
-- column kind (text): step (the profiler's), or phase (outermost ranges of the thread that launches most)
-- columns name, pid, tid, start_ns, dur_ns
-- doubts: no_steps, no_annotations
WITH step AS (
    SELECT trace_id, 'step' AS kind, name, pid, tid, start_ns, dur_ns FROM steps WHERE is_asked(trace_id)
),
launching AS (
    SELECT trace_id, pid, tid FROM gpu_ops WHERE launch_id IS NOT NULL AND is_asked(trace_id)
    GROUP BY trace_id, pid, tid
    QUALIFY row_number() OVER (PARTITION BY trace_id ORDER BY count(*) DESC, pid, tid) = 1
)
FROM step
UNION ALL
SELECT trace_id, 'phase', name, pid, tid, start_ns, dur_ns
FROM annotations SEMI JOIN launching USING (trace_id, pid, tid)
WHERE side = 'host' AND trace_id NOT IN (SELECT trace_id FROM step) AND dur_ns > 0
QUALIFY is_outermost((trace_id, pid, tid), start_ns, end_ns)
ORDER BY trace_id, start_ns
