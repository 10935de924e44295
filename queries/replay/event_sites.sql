-- question: What are these events, and where in the program do they come from?
-- since: 0.1
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
),
site AS (
    SELECT g.*, s.cpu_op, module_id, python_id
    FROM given AS g LEFT JOIN call_site AS s ON g.trace_id = s.trace_id AND g.host_id = s.event_id
),
around AS (
    SELECT e.trace_id, e.event_id, l.name FROM event_row AS e JOIN label AS l USING (label_id)
    WHERE e.event_id IN (SELECT module_id FROM site UNION SELECT python_id FROM site)
)
SELECT s.trace_id, s.event_id, s.name,
       CASE WHEN s.kind = 'cpu_op' THEN s.name ELSE coalesce(r.cpu_op, s.cpu_op) END AS cpu_op,
       coalesce(modules[-1], module_name(m.name)) AS module,
       CASE WHEN s.kind = 'python' THEN s.name ELSE coalesce(r.python_line, p.name) END AS python_line
FROM site AS s LEFT JOIN graph_site AS r ON s.trace_id = r.trace_id AND s.event_id = r.event_id
LEFT JOIN around AS m ON s.trace_id = m.trace_id AND s.module_id = m.event_id
LEFT JOIN around AS p ON s.trace_id = p.trace_id AND s.python_id = p.event_id
ORDER BY s.trace_id, s.event_id
