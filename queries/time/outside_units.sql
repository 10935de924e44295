-- question: How much of the device's time is in the run's steps, and what takes the time outside of them?
-- since: 0.1
-- column part (text): steps; start-up, before the first one; between; or tail, after the last one
-- column activity (text): compute, communication, copy or idle
-- column cause (text): of idle time, what the launching thread did while the device waited for it, or else
--     device (its own waits), unlinked or after_last_op
-- column part_ns (ns): of the main device; all rows add up to the whole trace
-- column share (fraction of the whole trace): part_ns over it
-- doubts: no_gpu_ops, unlinked_gpu_ops, starts_before_launch
-- Steps are the profiler's, or without marks units of work, or a loop of short iterations.
WITH spent AS (
    SELECT trace_id, device_id, kind, activity, coalesce(cause::VARCHAR, idle_class::VARCHAR) AS cause,
           sum(ns) AS ns
    FROM window_timeline_parts JOIN main_device USING (trace_id, device_id)
    WHERE kind IN ('trace', 'step') AND is_asked(trace_id)
        AND trace_id IN (SELECT trace_id FROM judged_steps)
    GROUP BY ALL
),
edge AS (
    SELECT trace_id, device_id,
           unnest([
               {'part': 'start-up', 'from_ns': min(start_ns),
                   'to_ns': greatest(min(start_ns), min(start_ns) FILTER (kind = 'step'))},
               {'part': 'tail', 'from_ns': least(max(end_ns), max(end_ns) FILTER (kind = 'step')),
                   'to_ns': max(end_ns) FILTER (kind = 'trace')}], recursive := true)
    FROM windows JOIN main_device USING (trace_id, device_id)
    WHERE kind IN ('trace', 'step') AND is_asked(trace_id)
    GROUP BY trace_id, device_id
),
outer_part AS (
    SELECT trace_id, part, activity, coalesce(cause::VARCHAR, idle_class::VARCHAR) AS cause,
           sum(least(t.end_ns, to_ns) - greatest(t.start_ns, from_ns)) AS ns
    FROM gpu_timeline_by_cause AS t JOIN edge USING (trace_id, device_id)
    WHERE t.start_ns < to_ns AND t.end_ns > from_ns
    GROUP BY ALL
),
part AS (
    FROM outer_part
    UNION ALL SELECT trace_id, 'steps', activity, cause, ns FROM spent WHERE kind = 'step'
    UNION ALL
    SELECT w.trace_id, 'between', w.activity, w.cause, w.ns - coalesce(sum(o.ns), 0)
    FROM (FROM spent WHERE kind = 'trace') AS w LEFT JOIN (
        SELECT trace_id, activity, cause, ns FROM outer_part
        UNION ALL SELECT trace_id, activity, cause, ns FROM spent WHERE kind = 'step') AS o
      ON w.trace_id = o.trace_id AND w.activity = o.activity AND w.cause IS NOT DISTINCT FROM o.cause
    GROUP BY w.trace_id, w.activity, w.cause, w.ns
)
SELECT trace_id, part, activity::VARCHAR AS activity, cause, ns::BIGINT AS part_ns,
       ns / sum(ns) OVER (PARTITION BY trace_id) AS share
FROM part WHERE ns <> 0
ORDER BY trace_id, list_position(['start-up', 'steps', 'between', 'tail'], part), part_ns DESC, cause
