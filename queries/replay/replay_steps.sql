-- question: Which steps or units of work, or else which ranges, does a run consist of?
-- since: 0.1
-- column kind (text): step (the profiler's), unit (of work, that nothing marks), or phase (outermost ranges
--     of the thread that launches most)
-- columns name, pid, tid, start_ns, dur_ns
-- column group_id (count): steps that do the same work have the same; -1: unknown
-- column is_main (boolean): the run is judged by it and others
-- doubts: no_steps, no_annotations
WITH step AS (
    SELECT trace_id, if(event_id < 0, 'unit', 'step') AS kind, name, pid, tid, start_ns, dur_ns,
           coalesce(group_id, -1) AS group_id, is_main
    FROM steps WHERE is_asked(trace_id)
),
launching AS (
    SELECT trace_id, pid, tid FROM gpu_ops WHERE launch_id IS NOT NULL AND is_asked(trace_id)
    GROUP BY trace_id, pid, tid
    QUALIFY row_number() OVER (PARTITION BY trace_id ORDER BY count(*) DESC, pid, tid) = 1
)
FROM step
UNION ALL
SELECT trace_id, 'phase', name, pid, tid, start_ns, dur_ns, -1, FALSE
FROM annotations SEMI JOIN launching USING (trace_id, pid, tid)
WHERE side = 'host' AND trace_id NOT IN (SELECT trace_id FROM step) AND dur_ns > 0
QUALIFY is_outermost((trace_id, pid, tid), start_ns, end_ns)
ORDER BY trace_id, start_ns
