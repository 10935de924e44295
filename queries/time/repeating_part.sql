-- question: Which part of a device's work repeats, if no steps are marked?
-- since: 0.1
-- columns device_id
-- column passes (count): number of repeats: nearly all names of its ops occur a multiple of that
-- columns start_ns, end_ns
-- column pass_ns (ns): median time from one pass to the next
-- doubts: no_gpu_ops
-- A pass begins with the earliest name that occurs once per pass. Everything before the second pass is left
-- out, because the first one includes start-up, and so is the last pass, whose end is unknown.
WITH named AS (
    SELECT trace_id, device_id, name, count(*) AS times, list(start_ns ORDER BY start_ns) AS starts
    FROM gpu_ops WHERE is_asked(trace_id) GROUP BY ALL
),
often AS (
    SELECT trace_id, device_id, times AS passes, arg_min(starts, (starts[1], name)) AS starts
    FROM named WHERE times >= thresholds().outlier_runs
    GROUP BY trace_id, device_id, times HAVING count(*) >= thresholds().fewest_alike
    QUALIFY row_number() OVER (PARTITION BY trace_id, device_id ORDER BY count(*) DESC, times DESC) = 1
)
SELECT o.trace_id, o.device_id, passes, any_value(o.starts[2]) AS start_ns, any_value(o.starts[-1]) AS end_ns,
       any_value(list_median(list_transform(list_zip(o.starts[2:-2], o.starts[3:]), lambda s: s[2] - s[1])))
           ::BIGINT AS pass_ns
FROM often AS o JOIN named USING (trace_id, device_id)
WHERE o.trace_id NOT IN (SELECT trace_id FROM steps)
GROUP BY o.trace_id, o.device_id, passes
HAVING count(*) FILTER (times % passes = 0) >= thresholds().nearly_all * count(*)
ORDER BY o.trace_id, o.device_id
