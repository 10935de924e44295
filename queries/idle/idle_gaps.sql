-- question: Which gaps on the GPU are the longest, what ended each, and what was the host doing?
-- since: 0.1
-- params top
-- columns device_id, start_ns
-- column gap_ns (ns): length of the gap
-- columns idle_class
-- column main_cause (text): the cause with the largest part of the gap (host_late only)
-- column main_cause_ns (ns): length of that part
-- column recoverable_ns (ns): the gap minus launch latency, held ops and the device's own waits; NULL:
--     unlinked
-- columns culprit
-- column ended_by (text): the GPU op that ended the gap; the next three columns describe its launch
-- columns cpu_op, python_line, step
-- doubts: no_gpu_ops, unlinked_gpu_ops, starts_before_launch, no_stacks
WITH waited AS (
    SELECT t.* FROM gpu_timeline_by_cause AS t
    JOIN windows AS w ON t.trace_id = w.trace_id AND t.device_id = w.device_id AND w.kind = 'gpu_active'
     AND t.start_ns >= w.start_ns
    WHERE activity = 'idle' AND op_id IS NOT NULL AND is_asked(t.trace_id)
),
longest AS MATERIALIZED (
    SELECT trace_id, device_id, op_id, min(start_ns) AS start_ns, sum(end_ns - start_ns)::BIGINT AS gap_ns
    FROM waited GROUP BY trace_id, device_id, op_id
    ORDER BY gap_ns DESC, start_ns, trace_id
    LIMIT coalesce(getvariable('top'), 20)
),
piece AS (
    SELECT trace_id, op_id, idle_class, cause, host_event_id, min(start_ns) AS start_ns,
           sum(end_ns - start_ns)::BIGINT AS ns
    FROM waited SEMI JOIN longest USING (trace_id, op_id) GROUP BY ALL
),
gap AS (
    SELECT trace_id, op_id, any_value(idle_class) AS idle_class,
           arg_max(host_event_id, (ns, -start_ns)) AS culprit_id,
           CASE WHEN any_value(idle_class) <> 'unlinked'
               THEN sum_where(ns, cause NOT IN ('held', 'launch_latency')) END AS recoverable_ns
    FROM piece GROUP BY trace_id, op_id
),
cause AS (
    SELECT trace_id, op_id, arg_max(cause, (ns, cause)) AS main_cause, max(ns)::BIGINT AS main_cause_ns
    FROM (SELECT trace_id, op_id, cause, sum(ns) AS ns FROM piece WHERE cause IS NOT NULL GROUP BY ALL)
    GROUP BY ALL
)
SELECT
    l.trace_id, l.device_id, l.start_ns, l.gap_ns, idle_class, main_cause, main_cause_ns, recoverable_ns,
    culprit.name AS culprit, o.name AS ended_by, launch_op AS cpu_op, launch_line AS python_line,
    o.step
FROM longest AS l JOIN gap AS g USING (trace_id, op_id) LEFT JOIN cause USING (trace_id, op_id)
JOIN gpu_op_origin AS o ON l.trace_id = o.trace_id AND l.op_id = o.event_id
LEFT JOIN event AS culprit ON g.trace_id = culprit.trace_id AND g.culprit_id = culprit.event_id
ORDER BY l.gap_ns DESC, l.start_ns, l.trace_id
