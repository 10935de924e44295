-- question: Which operators were added, removed, or changed in count or cost, from a to b?
-- since: 0.1
-- of: several traces
-- params a, b, top
-- columns operator, change
-- column a_count (count per step): calls in a (not captured), plus runs by graph replays
-- columns b_count
-- column a_self_ns (ns): host time in a outside the operators that it called, per step
-- column b_self_ns (ns): the same time in b, per step
-- column a_gpu_ns (ns): duration of GPU ops that it launched itself or replays ran for it in a, per step
-- columns b_gpu_ns, change_ns
-- doubts: no_operators, unlinked_gpu_ops
WITH captured AS (SELECT DISTINCT trace_id, cpu_op_id FROM captured_launches),
part AS (
    SELECT o.trace_id, o.name, (c.cpu_op_id IS NULL)::BIGINT AS count, coalesce(self_ns, 0) AS self_ns,
           0 AS gpu_ns
    FROM cpu_ops AS o LEFT JOIN thread_slice USING (trace_id, event_id)
    LEFT JOIN captured AS c ON o.trace_id = c.trace_id AND o.event_id = c.cpu_op_id
    UNION ALL
    SELECT trace_id, cpu_op, count(DISTINCT (launch_id, device_id, capture_id, cpu_op_id)), 0, 0
    FROM graph_site WHERE cpu_op IS NOT NULL GROUP BY ALL
    UNION ALL
    SELECT trace_id, cpu_op, 0, 0, dur_ns FROM gpu_op_module WHERE cpu_op IS NOT NULL
),
summed AS (
    SELECT side, name AS item, sum(count) / steps AS count, (sum(self_ns) // steps)::BIGINT AS host_ns,
           (sum(gpu_ns) // steps)::BIGINT AS gpu_ns
    FROM part JOIN compared_runs USING (trace_id) GROUP BY side, name, steps
),
compared AS (
    SELECT item, unnest(side_by_side(side, count, host_ns, gpu_ns)) FROM summed GROUP BY item
)
SELECT item AS operator,
       change_of(a_count, b_count, abs(b_host_ns - a_host_ns) + abs(b_gpu_ns - a_gpu_ns)) AS change,
       a_count, b_count, a_host_ns AS a_self_ns, b_host_ns AS b_self_ns, a_gpu_ns, b_gpu_ns, change_ns
FROM compared
ORDER BY abs(change_ns) DESC, operator
LIMIT coalesce(getvariable('top'), 20)
