-- question: Which operators take the most host time, alone and with the operators that they call?
-- since: 0.1
-- params top
-- columns name, count, self_ns, total_ns
-- column self_per_call_ns (ns): self_ns over count
-- column gpu_ops (count): GPU ops that it launched outside inner operators; all of a graph's ops
-- column launches_per_call (count): its own launch calls over count
-- column is_metadata (boolean): whether it only describes memory: a view, an uninitialized tensor, a query
-- doubts: no_operators
WITH launched AS (
    SELECT l.trace_id, cpu_op_id AS event_id, count(*) AS gpu_ops, count(DISTINCT launch_id) AS launches
    FROM gpu_ops AS l JOIN thread_slice AS s ON l.trace_id = s.trace_id AND l.launch_id = s.event_id
    GROUP BY ALL
),
outer_op AS (
    FROM cpu_ops WHERE is_asked(trace_id)
    QUALIFY is_outermost((trace_id, pid, tid, name), start_ns, end_ns)
),
inclusive AS (SELECT trace_id, name, sum(dur_ns)::BIGINT AS total_ns FROM outer_op GROUP BY ALL)
SELECT
    trace_id, name, count(*) AS count, sum(self_ns)::BIGINT AS self_ns, any_value(total_ns) AS total_ns,
    sum(self_ns)::BIGINT // count(*) AS self_per_call_ns, coalesce(sum(gpu_ops), 0)::BIGINT AS gpu_ops,
    coalesce(sum(launches), 0) / count(*) AS launches_per_call,
    has(any_value(traits), 'metadata') AS is_metadata
FROM cpu_ops JOIN thread_slice USING (trace_id, event_id) JOIN inclusive USING (trace_id, name)
LEFT JOIN launched USING (trace_id, event_id)
WHERE is_asked(trace_id)
GROUP BY trace_id, name
ORDER BY self_ns DESC, name, trace_id
LIMIT coalesce(getvariable('top'), 20)
