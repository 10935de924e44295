-- question: Which kernels took far longer than the same kernel usually does?
-- since: 0.1
-- params top
-- param fence (integer, default thresholds().outlier_fence): number of interquartile ranges above the third
--     quartile from which a run is an outlier (Tukey 1977: 3 is "far out")
-- param least (integer, default thresholds().outlier_runs): minimum number of runs that define a usual
--     duration
-- columns device_id, event_id, name, start_ns, dur_ns
-- column usual_ns (ns): median over runs with this name, grid and block on this device
-- columns excess_ns
-- column runs (count): number of runs behind usual_ns
-- columns cpu_op, known_from, step
-- doubts: no_gpu_ops, absurd_duration
WITH kernel AS (
    SELECT *, {'device_id': device_id, 'name': name, 'grid': grid, 'block': block} AS shape FROM kernels
    WHERE is_asked(trace_id)
),
usual AS (
    SELECT trace_id, shape, count(*) AS runs, percentile(list(dur_ns), 25) AS q1_ns,
           percentile(list(dur_ns), 50) AS q2_ns, percentile(list(dur_ns), 75) AS q3_ns
    FROM kernel GROUP BY trace_id, shape
    HAVING count(*) >= coalesce(getvariable('least'), thresholds().outlier_runs)
),
outlier AS (
    SELECT k.trace_id, k.device_id, k.event_id, k.name, k.start_ns, k.dur_ns, q2_ns,
           k.dur_ns - q2_ns AS excess_ns, runs
    FROM kernel AS k JOIN usual AS u ON k.trace_id = u.trace_id AND k.shape = u.shape
    WHERE k.dur_ns > q3_ns + coalesce(getvariable('fence'), thresholds().outlier_fence) * (q3_ns - q1_ns)
      -- For kernels that always take the same time the range is 0, so 0.1 % more does not count as an
      -- outlier.
      AND k.dur_ns > q2_ns
          + greatest(thresholds().outlier_excess_ns, thresholds().outlier_excess_share * q2_ns)
    ORDER BY excess_ns DESC, k.start_ns, trace_id
    LIMIT coalesce(getvariable('top'), 20)
)
SELECT r.trace_id, r.device_id, r.event_id, r.name, r.start_ns, r.dur_ns, q2_ns AS usual_ns, excess_ns, runs,
       cpu_op, known_from, step
FROM outlier AS r LEFT JOIN gpu_op_origin AS o ON r.trace_id = o.trace_id AND r.event_id = o.event_id
ORDER BY excess_ns DESC, r.start_ns, trace_id
