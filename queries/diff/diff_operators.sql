-- question: Which operators were added, removed, or changed in count or cost, from a to b?
-- params a, b, top
-- columns operator
-- column change (text): added, removed, same, time (of operators called equally often) or count (of others)
-- columns a_count, b_count
-- column a_self_ns (ns): host time in it but in nothing that it called, per step of a
-- column b_self_ns (ns): of b
-- column a_gpu_ns (ns): durations of GPU ops that it launched itself, over the steps of a
-- columns b_gpu_ns
-- column change_ns (ns): of self and GPU time together
-- doubts: no_operators, unlinked_gpu_ops
WITH run AS (FROM compared_runs(coalesce(getvariable('a'), 1), coalesce(getvariable('b'), 2))),
launched AS (
    SELECT h.trace_id, h.cpu_op_id AS event_id, sum(g.dur_ns) AS gpu_ns
    FROM gpu_op_launch AS l JOIN host_site AS h ON l.trace_id = h.trace_id AND l.launch_id = h.event_id
    JOIN gpu_ops AS g ON l.trace_id = g.trace_id AND l.event_id = g.event_id GROUP BY ALL
),
summed AS (
    SELECT side, o.name, count(*) / steps AS count, (sum(coalesce(self_ns, 0)) // steps)::BIGINT AS self_ns,
           (sum(coalesce(gpu_ns, 0)) // steps)::BIGINT AS gpu_ns
    FROM cpu_ops AS o JOIN run USING (trace_id) LEFT JOIN host_slice AS h ON o.trace_id = h.trace_id
        AND o.event_id = h.event_id
    LEFT JOIN launched AS l ON o.trace_id = l.trace_id AND o.event_id = l.event_id
    GROUP BY side, o.name, steps
),
compared AS (
    SELECT name AS operator, of_side(count, side, 'a') AS a_count, of_side(count, side, 'b') AS b_count,
           of_side(self_ns, side, 'a') AS a_self_ns,
           of_side(self_ns, side, 'b') AS b_self_ns, of_side(gpu_ns, side, 'a') AS a_gpu_ns,
           of_side(gpu_ns, side, 'b') AS b_gpu_ns
    FROM summed GROUP BY name
)
SELECT operator, change_of(a_count, b_count, abs(b_self_ns - a_self_ns) + abs(b_gpu_ns - a_gpu_ns)) AS change,
       a_count, b_count,
       a_self_ns, b_self_ns, a_gpu_ns, b_gpu_ns,
       b_self_ns + b_gpu_ns - a_self_ns - a_gpu_ns AS change_ns
FROM compared
ORDER BY abs(change_ns) DESC, operator
LIMIT coalesce(getvariable('top'), 20)
