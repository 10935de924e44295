-- question: Which parts of the device's time explain the difference between a's step time and b's?
-- since: 0.1
-- of: several traces
-- params a, b
-- column bar (count): position of the bar: a's whole window, then its parts, work first, then b's whole
--     window
-- column part (text): a, b, or what changed: compute by class of kernel (alone; `several classes` where they
--     overlap), communication, copy, idle by cause; of traces without GPU ops, what the busiest thread did,
--     as in the columns of cpu_time
-- column window (text): each run's median step, else the GPU-active spans, or the busiest threads' spans
-- column a_ns (ns): time in a's window
-- column b_ns (ns): time in b's window
-- columns change_ns
-- column until_ns (ns): a's window and the bars up to this one; the last change ends at b's window exactly
-- doubts: no_gpu_ops, unlinked_gpu_ops, starts_before_launch, cold_first_step, absurd_duration, recorder_cost
-- The median steps if both runs have steps, else the whole spans; no rows if only one run has GPU ops.
WITH win AS (
    SELECT side, w.*
    FROM compared_runs JOIN run_windows AS w USING (trace_id)
    QUALIFY (kind = 'step') = (count_if(kind = 'step') OVER () = 2)
        AND count(device_id) OVER () IN (0, count(*) OVER ())
),
-- Only for traces without GPU ops.
stretch AS (
    FROM cpu_stretches(coalesce((SELECT trace_id FROM win WHERE side = 'a' AND device_id IS NULL), -1))
    UNION
    FROM cpu_stretches(coalesce((SELECT trace_id FROM win WHERE side = 'b' AND device_id IS NULL), -1))
),
kernel AS (
    SELECT w.side AS key, class AS label, greatest(g.start_ns, w.start_ns) AS start_ns,
           least(g.end_ns, w.end_ns) AS end_ns
    FROM gpu_ops AS g JOIN win AS w ON g.trace_id = w.trace_id AND g.device_id = w.device_id
        AND g.start_ns < w.end_ns AND g.end_ns > w.start_ns
    WHERE g.activity = 'compute'
),
class AS (FROM interval_labels('kernel')),
part AS (
    SELECT key AS side,
           'compute: ' || CASE WHEN len(labels) = 1 THEN labels[1] ELSE 'several classes' END AS part,
           1 AS rank, end_ns - start_ns AS ns
    FROM class
    UNION ALL
    SELECT w.side,
           CASE WHEN activity <> 'idle' THEN activity
                ELSE 'idle: ' || CASE WHEN idle_class = 'host_late' THEN cause ELSE idle_class END END,
           CASE activity WHEN 'communication' THEN 2 WHEN 'copy' THEN 3 ELSE 4 END, ns
    FROM window_timeline_parts AS p JOIN win AS w USING (trace_id, device_id, kind, name)
    WHERE p.window_start_ns = w.start_ns AND p.window_end_ns = w.end_ns AND activity <> 'compute'
    UNION ALL
    SELECT w.side, role, CASE role WHEN 'compute' THEN 1 WHEN 'communication' THEN 2 ELSE 4 END,
           least(s.end_ns, w.end_ns) - greatest(s.start_ns, w.start_ns)
    FROM stretch AS s JOIN win AS w ON s.trace_id = w.trace_id AND s.start_ns < w.end_ns
        AND s.end_ns > w.start_ns
),
changed AS (
    SELECT part, rank, sum_where(ns, side = 'a') AS a_ns, sum_where(ns, side = 'b') AS b_ns,
           b_ns - a_ns AS change_ns
    FROM part GROUP BY part, rank
),
whole AS (
    SELECT any_value(name) FILTER (side = 'a') || ' of a, ' || any_value(name) FILTER (side = 'b')
        || ' of b' AS window_name,
           any_value(end_ns - start_ns) FILTER (side = 'a') AS a_ns,
           any_value(end_ns - start_ns) FILTER (side = 'b') AS b_ns
    FROM win HAVING count(DISTINCT side) = 2
),
bar AS (
    SELECT 'a' AS part, 0 AS rank, a_ns, NULL AS b_ns, NULL AS change_ns FROM whole
    UNION ALL
    SELECT part, rank, a_ns, b_ns, change_ns FROM changed
    UNION ALL
    SELECT 'b', 5, NULL, b_ns, NULL FROM whole
),
placed AS (SELECT *, row_number() OVER (ORDER BY rank, abs(change_ns) DESC, part) AS bar FROM bar)
SELECT bar, part, window_name AS window, p.a_ns, p.b_ns, change_ns,
       w.a_ns + coalesce(sum(change_ns) OVER (ORDER BY bar), 0)::BIGINT AS until_ns
FROM placed AS p, whole AS w
ORDER BY bar
