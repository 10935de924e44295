-- fact: How a run's optimizers step.
-- into: setting
-- needs: slice_label
-- when: has(traits, 'optimizer_step')
-- Apex's FusedAdam and its like call no operator for their kernels (github.com/NVIDIA/apex).
WITH step AS (
    SELECT trace_id, event_id, pid, tid, start_ns, end_ns,
           regexp_extract(name, '^Optimizer\.step#(\w+)', 1) AS optimizer
    FROM slices WHERE has(traits, 'optimizer_step') AND optimizer <> ''
),
inside AS (
    SELECT s.trace_id, s.optimizer, bool_or(contains(o.name, '_fused_')) AS is_fused,
           bool_or(contains(o.name, '_foreach_')) AS is_foreach
    FROM cpu_ops AS o ASOF JOIN step AS s
      ON o.trace_id = s.trace_id AND o.pid = s.pid AND o.tid = s.tid AND o.start_ns >= s.start_ns
    WHERE o.start_ns < s.end_ns GROUP BY ALL
)
SELECT trace_id, 'optimizer', optimizer || CASE WHEN optimizer LIKE 'Fused%' OR is_fused THEN ', fused'
           WHEN is_foreach THEN ', foreach' WHEN is_fused IS NOT NULL THEN ', one by one' ELSE '' END,
       NULL, NULL, min(event_id)
FROM step LEFT JOIN inside USING (trace_id, optimizer)
GROUP BY trace_id, optimizer, is_fused, is_foreach
