-- question: On what does each rank spend more time than the job's other ranks?
-- since: 0.1
-- columns rank
-- column part (text): compute, memcpy, or a cause of idle time: python, input ...; device, unlinked and
--     after_last_op as in partition. Communication is left out: it contains waiting for others
-- column own_ns (ns): time in the main device's GPU-active span, divided by the number of steps
-- column others_ns (ns): the median of own_ns over the other ranks
-- columns excess_ns
-- doubts: no_gpu_ops, one_rank, unlinked_gpu_ops, no_stacks
WITH measured AS (
    SELECT trace_id, CASE activity WHEN 'copy' THEN 'memcpy' WHEN 'idle' THEN CASE idle_class
               WHEN 'host_late' THEN cause::VARCHAR ELSE idle_class::VARCHAR END ELSE activity::VARCHAR
               END AS part,
           sum(ns) / any_value(steps) AS ns
    FROM window_timeline_parts JOIN main_device USING (trace_id, device_id) JOIN run_steps USING (trace_id)
    WHERE kind = 'gpu_active' AND activity <> 'communication' GROUP BY ALL
),
-- A missing part counts as 0.
own AS MATERIALIZED (
    SELECT job, r.trace_id, rank, p.part, coalesce(m.ns, 0)::BIGINT AS ns
    FROM (SELECT DISTINCT trace_id FROM measured) AS r JOIN jobs USING (trace_id) JOIN trace USING (trace_id)
    CROSS JOIN (SELECT DISTINCT part FROM measured) AS p
    LEFT JOIN measured AS m ON r.trace_id = m.trace_id AND p.part = m.part
),
compared AS (
    SELECT own.trace_id, own.rank, own.part, own.ns, percentile(list(other.ns), 50) AS others_ns
    FROM own JOIN own AS other
      ON own.job = other.job AND own.part = other.part AND own.trace_id <> other.trace_id
    WHERE is_asked(own.trace_id) GROUP BY ALL
)
SELECT trace_id, rank, part, ns AS own_ns, others_ns, ns - others_ns AS excess_ns
FROM compared WHERE ns > 0 OR others_ns > 0
ORDER BY excess_ns DESC, trace_id, part
