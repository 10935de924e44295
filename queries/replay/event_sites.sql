-- question: What are these events, and where in the program do they come from?
-- params trace, events
-- columns trace_id, event_id, name, cpu_op
-- column module (text): the module around it; NULL: none recorded
-- columns python_line
-- doubts: no_stacks, no_modules, unlinked_gpu_ops
WITH given AS (
    SELECT e.trace_id, event_id, l.name, kind
    FROM event_row AS e JOIN label AS l USING (label_id) LEFT JOIN slice_label USING (label_id)
    WHERE e.trace_id = coalesce(getvariable('trace'), e.trace_id)
      AND event_id IN (SELECT TRY_CAST(unnest(string_split(coalesce(getvariable('events'), ''),
          ',')) AS BIGINT))
),
at_host AS (
    SELECT g.trace_id, g.event_id AS given_id, coalesce(l.launch_id, g.event_id) AS event_id
    FROM given AS g
    LEFT JOIN (FROM gpu_op_launch WHERE trace_id = coalesce(getvariable('trace'), trace_id)) AS l
      ON g.trace_id = l.trace_id AND g.event_id = l.event_id
),
site AS (FROM call_site('at_host'))
SELECT
    g.trace_id, g.event_id, g.name, CASE WHEN g.kind = 'cpu_op' THEN g.name ELSE s.cpu_op END AS cpu_op,
    s.module,
    CASE WHEN g.kind = 'python' THEN g.name ELSE s.python_line END AS python_line
FROM given AS g JOIN at_host AS h ON g.trace_id = h.trace_id AND g.event_id = h.given_id
LEFT JOIN site AS s ON h.trace_id = s.trace_id AND h.event_id = s.event_id
ORDER BY g.trace_id, g.event_id
