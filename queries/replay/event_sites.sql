-- question: What are these events, and where in the program do they come from?
-- params events
-- columns event_id, name, cpu_op, module, python_line
-- doubts: no_stacks, no_modules, unlinked_gpu_ops
WITH given AS (
    SELECT e.trace_id, e.event_id, l.name, n.kind, coalesce(g.launch_id, e.event_id) AS host_id
    FROM event_row AS e JOIN label AS l USING (label_id) LEFT JOIN slice_label AS n USING (label_id)
    LEFT JOIN gpu_ops AS g ON e.trace_id = g.trace_id AND e.event_id = g.event_id
    WHERE is_asked(e.trace_id)
      AND e.event_id IN (SELECT TRY_CAST(unnest(string_split(coalesce(getvariable('events'), ''),
          ',')) AS BIGINT))
)
SELECT g.trace_id, g.event_id, g.name,
       CASE WHEN g.kind = 'cpu_op' THEN g.name ELSE coalesce(r.cpu_op, s.cpu_op) END AS cpu_op,
       coalesce(modules[-1], module_name(m.name)) AS module,
       CASE WHEN g.kind = 'python' THEN g.name ELSE coalesce(r.python_line, p.name) END AS python_line
FROM given AS g LEFT JOIN call_site AS s ON g.trace_id = s.trace_id AND g.host_id = s.event_id
LEFT JOIN graph_site AS r ON g.trace_id = r.trace_id AND g.event_id = r.event_id
LEFT JOIN event AS m ON g.trace_id = m.trace_id AND s.module_id = m.event_id
LEFT JOIN event AS p ON g.trace_id = p.trace_id AND s.python_id = p.event_id
ORDER BY g.trace_id, g.event_id
