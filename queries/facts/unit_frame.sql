-- fact: A Python frame, module or range that may recur: in a long slice, or outside all slices.
-- needs: thread_slice, trace_span
-- when: kind IN ('python', 'annotation')
-- What recurs and holds most launches is inside such a slice: its parent lasts for as long as all of it.
CREATE TABLE _scratch.unit_frame (
    trace_id INTEGER, pid BIGINT, tid BIGINT,
    parent_id BIGINT,   -- the slice around it; NULL: none
    event_id BIGINT,
    is_range  BOOLEAN,  -- annotated
    start_ns BIGINT, end_ns BIGINT,
    is_module BOOLEAN,
    in_module BOOLEAN,  -- it runs inside a module
    name VARCHAR
);
WITH parent AS (
    SELECT s.trace_id, s.event_id, t.module_id IS NOT NULL AS in_module
    FROM slices AS s JOIN trace_span AS p USING (trace_id) JOIN thread_slice AS t USING (trace_id, event_id)
    WHERE kind IN ('python', 'annotation', 'cpu_op')
      AND dur_ns >= thresholds().unit_parent_share * (p.end_ns - p.start_ns)
),
child AS (
    SELECT t.trace_id, t.event_id, t.parent_id, in_module
    FROM thread_slice AS t JOIN parent AS p ON t.trace_id = p.trace_id AND t.parent_id = p.event_id
    UNION ALL
    SELECT trace_id, event_id, NULL, FALSE FROM thread_slice WHERE parent_id IS NULL
)
SELECT trace_id, pid, tid, parent_id, event_id, kind = 'annotation' AS is_range, start_ns, end_ns,
       has(traits, 'module') AS is_module, in_module, if(has(traits, 'module'), module_name(name), name)
FROM child JOIN slices USING (trace_id, event_id)
WHERE kind = 'python' OR kind = 'annotation' AND NOT has(traits, 'step') AND NOT has(traits, 'server_step')
