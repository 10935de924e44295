-- question: What are these events, and where in the program do they come from?
-- params events
-- columns event_id, name, cpu_op, module, python_line
-- doubts: no_stacks, no_modules, unlinked_gpu_ops
WITH given AS (
    SELECT e.trace_id, event_id, l.name, kind
    FROM event_row AS e JOIN label AS l USING (label_id) LEFT JOIN slice_label USING (label_id)
    WHERE is_asked(e.trace_id)
      AND event_id IN (SELECT TRY_CAST(unnest(string_split(coalesce(getvariable('events'), ''),
          ',')) AS BIGINT))
),
op AS (FROM gpu_op_origin SEMI JOIN given USING (trace_id, event_id))
SELECT
    g.trace_id, g.event_id, g.name,
    CASE WHEN g.kind = 'cpu_op' THEN g.name ELSE coalesce(s.cpu_op, o.cpu_op) END AS cpu_op,
    coalesce(module_name(name_of(g.trace_id, s.module_id)), o.module) AS module,
    CASE WHEN g.kind = 'python' THEN g.name ELSE coalesce(name_of(g.trace_id, s.python_id), o.python_line) END
        AS python_line
FROM given AS g LEFT JOIN call_site AS s USING (trace_id, event_id)
LEFT JOIN op AS o USING (trace_id, event_id)
ORDER BY g.trace_id, g.event_id
