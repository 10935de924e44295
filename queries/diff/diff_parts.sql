-- question: Which parts of the program, matched by their position, cost more or less in b than in a?
-- since: 0.1
-- of: several traces
-- params a, b, top
-- column part (text): modules by class and place among those of their parent, then the operator in them. A
--     part that only one run has counts as part of its parent if both have that; else it has no partner.
--     What replays of graphs ran belongs to the part that was captured, or that annotations name
-- columns change, a_count, b_count, a_host_ns, b_host_ns, a_gpu_ns, b_gpu_ns, change_ns
-- doubts: no_operators, no_modules, unlinked_gpu_ops
WITH RECURSIVE frame AS (
    SELECT trace_id, pid, tid, event_id, module_name(s.name) AS name, start_ns, end_ns, dur_ns
    FROM slices AS s JOIN slice_label AS l USING (label_id)
    WHERE has(l.traits, 'module') AND NOT has(l.traits, 'wrapping_module')
      AND trace_id IN (SELECT trace_id FROM compared_runs)
),
-- The first call of each module.
instance AS (
    SELECT f.trace_id, f.name, arg_min(p.name, f.start_ns) FILTER (p.name <> f.name) AS parent,
           min(f.start_ns) AS first_ns, regexp_replace(f.name, '_[0-9]+$', '') AS class
    FROM frame AS f JOIN (FROM nested('frame')) AS n USING (trace_id, event_id)
    LEFT JOIN frame AS p ON n.trace_id = p.trace_id AND n.parent_id = p.event_id
    GROUP BY ALL
),
numbered AS (
    SELECT *, concat(class, '[', row_number() OVER of_parent - 1, ']') AS label FROM instance
    WINDOW of_parent AS (PARTITION BY trace_id, parent, class ORDER BY first_ns, name)
),
module AS (
    SELECT trace_id, name, [label] AS path FROM numbered WHERE parent IS NULL
    UNION
    SELECT n.trace_id, n.name, list_append(m.path, n.label)
    FROM numbered AS n JOIN module AS m ON n.trace_id = m.trace_id AND n.parent = m.name
),
operator AS (
    SELECT trace_id, event_id, o.name, o.dur_ns, s.module_id
    FROM cpu_ops AS o JOIN thread_slice AS s USING (trace_id, event_id)
    WHERE coalesce(outer_op_id, event_id) = event_id AND trace_id IN (SELECT trace_id FROM compared_runs)
),
known AS (FROM graph_site WHERE cpu_op IS NOT NULL OR modules IS NOT NULL),
launched AS (
    SELECT h.trace_id, h.outer_op_id AS event_id, sum(g.dur_ns) AS gpu_ns
    FROM gpu_ops AS g JOIN thread_slice AS h ON g.trace_id = h.trace_id AND g.launch_id = h.event_id
    WHERE (g.trace_id, g.event_id) NOT IN (SELECT (trace_id, event_id) FROM known) GROUP BY ALL
),
-- A captured call only records; replays run what it recorded.
own AS (
    SELECT o.*, f.name AS module, gpu_ns, c.outer_op_id IS NULL AS ran
    FROM operator AS o LEFT JOIN launched AS l USING (trace_id, event_id)
    LEFT JOIN (SELECT DISTINCT trace_id, outer_op_id FROM captured_launches) AS c
      ON o.trace_id = c.trace_id AND o.event_id = c.outer_op_id
    LEFT JOIN frame AS f ON o.trace_id = f.trace_id AND o.module_id = f.event_id
),
part AS (
    SELECT trace_id, trace_id AS named_in, module, NULL::VARCHAR[] AS modules, name,
           count(*) FILTER (ran) AS count, sum(dur_ns) AS host_ns, sum(coalesce(gpu_ns, 0)) AS gpu_ns
    FROM own GROUP BY ALL
    UNION ALL
    SELECT k.trace_id, capture_trace_id, modules[-1], modules, coalesce(o.name, cpu_op),
           count(DISTINCT (launch_id, device_id, k.capture_id, coalesce(outer_op_id, k.cpu_op_id))), 0,
           sum(k.dur_ns)
    FROM known AS k LEFT JOIN captured_launches AS c
      ON capture_trace_id = c.trace_id AND capture_launch_id = c.event_id
    LEFT JOIN operator AS o ON c.trace_id = o.trace_id AND outer_op_id = o.event_id
    GROUP BY ALL
),
leaf AS (
    SELECT side,
           list_concat(coalesce(path, modules, []), if(p.name IS NULL, [], [p.name])) AS path,
           sum(count) / steps AS count, sum(host_ns) / steps AS host_ns, sum(gpu_ns) / steps AS gpu_ns
    FROM part AS p JOIN compared_runs USING (trace_id)
    LEFT JOIN module AS m ON named_in = m.trace_id AND module = m.name
    GROUP BY side, path, modules, p.name, steps
),
around AS (SELECT side, path, unnest([path[:depth] FOR depth IN range(1, len(path) + 1)]) AS part FROM leaf),
shared AS (SELECT part FROM around GROUP BY part HAVING count(DISTINCT side) = 2),
matched AS (
    SELECT side, path, arg_max(part, len(part)) AS part FROM around SEMI JOIN shared USING (part) GROUP BY ALL
),
summed AS (
    SELECT side, array_to_string(coalesce(part, path[:1]), '/') AS item, sum(count) AS count,
           sum(host_ns)::BIGINT AS host_ns, sum(gpu_ns)::BIGINT AS gpu_ns
    FROM leaf LEFT JOIN matched USING (side, path) GROUP BY ALL
),
compared AS (
    SELECT item, unnest(side_by_side(side, count, host_ns, gpu_ns)) FROM summed GROUP BY item
)
SELECT item AS part,
       change_of(a_count, b_count, abs(b_host_ns - a_host_ns) + abs(b_gpu_ns - a_gpu_ns)) AS change,
       a_count, b_count, a_host_ns, b_host_ns, a_gpu_ns, b_gpu_ns, change_ns
FROM compared
ORDER BY abs(change_ns) DESC, part
LIMIT coalesce(getvariable('top'), 20)
