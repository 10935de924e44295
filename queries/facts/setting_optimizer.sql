-- fact: How a run's optimizers step.
-- into: setting
-- needs: slice_label
-- when: has(traits, 'optimizer_step')
-- Apex's FusedAdam and its like call no operator for their kernels (github.com/NVIDIA/apex).
SELECT s.trace_id, 'optimizer', optimizer || CASE
           WHEN optimizer LIKE 'Fused%' OR bool_or(contains(o.name, '_fused_')) THEN ', fused'
           WHEN bool_or(contains(o.name, '_foreach_')) THEN ', foreach'
           WHEN count(o.name) > 0 THEN ', one by one' ELSE '' END,
       NULL, NULL, min(s.event_id)
FROM (SELECT *, regexp_extract(name, '^Optimizer\.step#(\w+)', 1) AS optimizer
    FROM slices WHERE has(traits, 'optimizer_step')) AS s
LEFT JOIN cpu_ops AS o ON s.trace_id = o.trace_id AND s.pid = o.pid AND s.tid = o.tid
    AND o.start_ns BETWEEN s.start_ns AND s.end_ns
WHERE optimizer <> ''
GROUP BY s.trace_id, optimizer
