-- question: Which operators call which, and what does each call path cost?
-- params trace, top
-- param operator (text, default all): only paths with an operator whose name contains this
-- columns trace_id
-- column path (list of text): operators from the outermost to this one
-- column depth (count): the number of operators
-- columns count, total_ns, self_ns, gpu_ops, gpu_ns
-- doubts: no_operators
WITH RECURSIVE operator AS (
    SELECT trace_id, event_id, pid, tid, name, start_ns, end_ns, dur_ns FROM cpu_ops
    WHERE trace_id = coalesce(getvariable('trace'), trace_id)
),
nest AS (FROM nested('operator')),
linked AS MATERIALIZED (SELECT n.*, o.name FROM nest AS n JOIN operator AS o USING (trace_id, event_id)),
cost AS (FROM launched_inside('operator')),
tree AS (
    SELECT trace_id, event_id, [name] AS path FROM linked WHERE parent_id IS NULL
    UNION ALL
    SELECT l.trace_id, l.event_id, list_append(t.path, l.name)
    FROM tree AS t JOIN linked AS l ON t.trace_id = l.trace_id AND t.event_id = l.parent_id
)
SELECT trace_id, path, len(path) AS depth, count(*) AS count, sum(dur_ns)::BIGINT AS total_ns,
       sum(self_ns)::BIGINT AS self_ns,
       sum(gpu_ops)::BIGINT AS gpu_ops, sum(gpu_ns)::BIGINT AS gpu_ns
FROM tree JOIN cost USING (trace_id, event_id) JOIN host_slice USING (trace_id, event_id)
WHERE (getvariable('operator') IS NULL
    OR len(list_filter(path, lambda name: contains(name, getvariable('operator')))) > 0)
GROUP BY trace_id, path
ORDER BY total_ns DESC, path, trace_id
LIMIT coalesce(getvariable('top'), 20)
