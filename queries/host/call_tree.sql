-- question: Which operators call which, and what does each call path cost?
-- since: 0.1
-- params top, operator
-- column path (list of text): operators from the outermost (for a captured call, in the capture) to this one
-- columns known_from
-- column depth (count): number of operators on the path
-- column count (count): calls by the host, including captured ones; for a captured path, runs by replays
-- columns total_ns, self_ns
-- column gpu_ops (count): GPU ops launched inside it; ops of a known captured operator count on its path
-- columns gpu_ns
-- doubts: no_operators
WITH RECURSIVE operator AS (
    SELECT trace_id, event_id, pid, tid, name, start_ns, end_ns, dur_ns FROM cpu_ops WHERE is_asked(trace_id)
),
replayed AS (
    SELECT *, unnest(range(1, len(operators) + 1)) AS depth FROM graph_site WHERE is_asked(trace_id)
),
moved AS (
    SELECT trace_id, launch_id, count(*) AS ops, sum(dur_ns) AS ns FROM replayed WHERE depth = 1 GROUP BY ALL
),
staying AS MATERIALIZED (
    SELECT trace_id, pid, tid, start_ns, kernels, gpu_ops - coalesce(sum(ops) OVER so_far, 0) AS gpu_ops,
           gpu_ns - coalesce(sum(ns) OVER so_far, 0) AS gpu_ns
    FROM launch_call LEFT JOIN moved USING (trace_id, launch_id)
    WINDOW so_far AS (PARTITION BY trace_id, pid, tid ORDER BY start_ns, launch_id)
),
linked AS MATERIALIZED (
    SELECT o.trace_id, o.event_id, name, h.self_ns, p.cpu_op_id AS parent_id
    FROM operator AS o JOIN thread_slice AS h USING (trace_id, event_id)
    LEFT JOIN thread_slice AS p ON h.trace_id = p.trace_id AND h.parent_id = p.event_id
),
cost AS (FROM launched_inside('operator', 'staying')),
tree AS (
    SELECT trace_id, event_id, self_ns, [name] AS path FROM linked WHERE parent_id IS NULL
    UNION ALL
    SELECT l.trace_id, l.event_id, l.self_ns, list_append(t.path, l.name)
    FROM tree AS t JOIN linked AS l ON t.trace_id = l.trace_id AND t.event_id = l.parent_id
),
costed AS (
    SELECT trace_id, path, 'call' AS known_from, count(*) AS count, sum(dur_ns)::BIGINT AS total_ns,
           sum(self_ns)::BIGINT AS self_ns, sum(gpu_ops)::BIGINT AS gpu_ops, sum(gpu_ns)::BIGINT AS gpu_ns
    FROM tree JOIN cost USING (trace_id, event_id)
    GROUP BY trace_id, path
    UNION ALL
    SELECT trace_id, operators[:depth], op_from,
           count(DISTINCT (launch_id, device_id, capture_id, operator_ids[depth])), NULL, NULL, count(*),
           sum(dur_ns)
    FROM replayed GROUP BY trace_id, operators[:depth], op_from
)
SELECT trace_id, path, known_from, len(path) AS depth, count, total_ns, self_ns, gpu_ops, gpu_ns
FROM costed
WHERE (getvariable('operator') IS NULL
    OR len(list_filter(path, lambda name: contains(name, getvariable('operator')))) > 0)
ORDER BY coalesce(total_ns, gpu_ns) DESC, path, known_from, trace_id
LIMIT coalesce(getvariable('top'), 20)
