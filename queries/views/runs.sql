-- The figures by which runs are compared.

-- A step's length with the profiler and without, as `tracekit capture` measured them, and the steps that ran
-- before those that it recorded; NULL: not recorded.
CREATE OR REPLACE VIEW measured_steps AS
SELECT trace_id, TRY_CAST(metadata->'tracekit'->>'profiled_step_ns' AS BIGINT) AS profiled_ns,
       TRY_CAST(metadata->'tracekit'->>'unprofiled_step_ns' AS BIGINT) AS unprofiled_ns,
       TRY_CAST(metadata->'tracekit'->>'warmup_steps' AS BIGINT) AS warmup_steps
FROM trace;

-- The number of steps that each trace marks, at least 1. Totals are divided by it.
CREATE OR REPLACE VIEW run_steps AS
SELECT t.trace_id, greatest(1, count(s.start_ns)) AS steps
FROM trace AS t LEFT JOIN steps AS s ON t.trace_id = s.trace_id
GROUP BY t.trace_id;

-- A count over all of a trace as one in each of its steps.
CREATE OR REPLACE MACRO in_step(many, steps) AS greatest(1, round(many / steps))::BIGINT;

-- The main step of median length (of an even number, the shorter of the two in the middle) and the
-- GPU-active span of each trace's main device. In a trace without GPU ops, device_id is NULL, and the span is
-- that of its busiest thread, host_active. A trace is compared by its step if it has one (`is_compared`).
CREATE OR REPLACE VIEW run_windows AS
SELECT trace_id, device_id, kind, name, start_ns, end_ns,
       kind = 'step' OR NOT bool_or(kind = 'step') OVER of_trace AS is_compared,
       any_value(end_ns - start_ns) FILTER (kind = 'gpu_active') OVER of_trace AS active_ns
FROM (
    SELECT trace_id, device_id, kind, name, start_ns, end_ns, is_main
    FROM windows JOIN main_device USING (trace_id, device_id)
    UNION ALL
    SELECT trace_id, NULL, kind, name, start_ns, end_ns, is_main
    FROM cpu_windows ANTI JOIN main_device USING (trace_id)
)
WHERE is_main OR kind IN ('gpu_active', 'host_active')
WINDOW of_trace AS (PARTITION BY trace_id)
QUALIFY kind <> 'step'
     OR row_number() OVER (PARTITION BY trace_id, kind ORDER BY end_ns - start_ns, start_ns)
        = 1 + (count(*) OVER (PARTITION BY trace_id, kind) - 1) // 2;

-- The unit of work that a trace is compared by, with how many of them its compared window has: one step, the
-- iterations of a loop, or else the like units that take most time, of the whole window. tokens and samples
-- are those of one unit. Without a row, nothing repeats.
CREATE OR REPLACE VIEW run_units AS
WITH judged AS (
    SELECT trace_id, any_value(group_id) AS group_id, coalesce(max(iterations), 1) AS units
    FROM judged_steps WHERE is_main GROUP BY trace_id
),
grouped AS (
    SELECT trace_id, kind, group_id, count(*) AS many, percentile(list(dur_ns), 50) AS length_ns,
           sum(dur_ns) AS all_ns, min(start_ns) AS start_ns, avg(tokens) AS tokens
    FROM units WHERE level = 1 AND is_whole AND source <> 'single' GROUP BY trace_id, kind, group_id
),
other AS (
    FROM grouped ANTI JOIN judged USING (trace_id) WHERE kind <> 'iteration'
    QUALIFY row_number() OVER (PARTITION BY trace_id ORDER BY many > 1 DESC, all_ns DESC, start_ns) = 1
),
chosen AS (
    SELECT trace_id, coalesce(kind, 'step') AS unit, units, NULL::BIGINT AS length_ns, tokens
    FROM judged LEFT JOIN grouped USING (trace_id, group_id)
    UNION ALL SELECT trace_id, kind, many, length_ns, tokens FROM other
)
SELECT trace_id, unit, units, length_ns, tokens, CASE WHEN unit IN ('step', 'pass')
           THEN TRY_CAST(metadata->'tracekit'->'parameters'->>'batch' AS BIGINT) END AS samples
FROM chosen JOIN trace USING (trace_id);

-- The figures of each run, taken from that window. In a trace without GPU ops, a device's times are NULL.
CREATE OR REPLACE VIEW run_figures AS
WITH ops AS (
    SELECT trace_id, count(*) FILTER (kind = 'kernel') AS kernels,
           sum_where(dur_ns, kind = 'kernel') AS kernel_ns, sum_where(bytes, kind = 'memcpy') AS copied_bytes
    FROM gpu_ops GROUP BY trace_id
),
linked AS (SELECT trace_id, count(*) AS launches FROM launch_call GROUP BY trace_id),
host AS (SELECT trace_id, count(*) AS operators FROM slices WHERE kind = 'cpu_op' GROUP BY trace_id),
thread AS (
    SELECT trace_id, sum_where(end_ns - start_ns, activity = 'dispatch') AS dispatch_ns,
           sum_where(end_ns - start_ns, activity = 'sync') AS sync_ns
    FROM host_segment GROUP BY trace_id
)
SELECT trace_id, steps, end_ns - start_ns AS span_ns, busy_ns, compute_ns, exposed_comm_ns, exposed_memcpy_ns,
       idle_ns, host_late_ns, active_ns, coalesce(ops.kernels, 0) AS kernels,
       coalesce(kernel_ns, 0) AS kernel_ns, coalesce(launches, 0) AS launches,
       coalesce(operators, 0) AS operators, coalesce(dispatch_ns, 0) AS dispatch_ns,
       coalesce(sync_ns, 0) AS sync_ns,
       coalesce(copied_bytes, 0) AS copied_bytes, coalesce(unit, w.kind) AS unit, coalesce(units, 1) AS units,
       coalesce(length_ns, (end_ns - start_ns) // coalesce(units, 1)) AS unit_ns, tokens, samples
FROM (FROM run_windows WHERE is_compared) AS w LEFT JOIN run_units USING (trace_id)
LEFT JOIN window_partition USING (trace_id, device_id, kind, name, start_ns, end_ns)
LEFT JOIN ops USING (trace_id) JOIN run_steps USING (trace_id) LEFT JOIN linked USING (trace_id)
LEFT JOIN host USING (trace_id) LEFT JOIN thread USING (trace_id);

-- The counted work of a trace's steps, or of the whole trace if it has none. Each row has the figure that
-- counts it, and the host event that did or launched it.
CREATE OR REPLACE VIEW counted_work AS
WITH counted AS (
    SELECT trace_id, event_id, CASE WHEN kind = 'cpu_op' THEN 'operators' WHEN activity = 'sync'
               THEN 'synchronizations' WHEN activity = 'allocation' THEN 'allocations' ELSE 'launches' END
               AS figure, NULL AS class, name, start_ns AS at_ns, 1 AS amount
    FROM slices WHERE kind = 'cpu_op'
        OR kind IN ('runtime', 'driver') AND activity IN ('launch', 'copy', 'sync', 'allocation')
    UNION ALL
    SELECT trace_id, event_id, 'compiled_regions', NULL, name, start_ns, 1 FROM slices
    WHERE has(traits, 'compiled_region')
    UNION ALL
    SELECT trace_id, launch_id, 'kernels', class, name, coalesce(launch_start_ns, start_ns), 1
    FROM gpu_ops WHERE kind = 'kernel'
    UNION ALL
    SELECT trace_id, launch_id, 'copied_bytes', NULL, copy_kind, coalesce(launch_start_ns, start_ns), bytes
    FROM gpu_ops WHERE kind = 'memcpy' AND bytes IS NOT NULL
)
SELECT c.trace_id, c.event_id, figure, class, c.name, amount, r.steps
FROM counted AS c JOIN run_steps AS r USING (trace_id) LEFT JOIN steps AS s
  ON c.trace_id = s.trace_id AND at_ns >= s.start_ns AND at_ns < s.end_ns
WHERE s.trace_id IS NOT NULL OR c.trace_id NOT IN (SELECT trace_id FROM steps);

-- The two runs of the parameters `a` and `b`; both may be the same run.
CREATE OR REPLACE VIEW compared_runs AS
SELECT side, r.*
FROM (SELECT 'a' AS side, coalesce(getvariable('a'), 1) AS trace_id
    UNION ALL SELECT 'b', coalesce(getvariable('b'), 2))
JOIN run_steps AS r USING (trace_id);

-- A figure of side `which` from rows of both sides; 0 if that side has no row.
CREATE OR REPLACE MACRO of_side(figure, side, which) AS coalesce(any_value(figure) FILTER (side = which), 0);

-- The rows of an item in two runs, side by side: a struct.
CREATE OR REPLACE MACRO side_by_side(side, count, host_ns, gpu_ns) AS {
    'a_count': of_side(count, side, 'a'), 'b_count': of_side(count, side, 'b'),
    'a_host_ns': of_side(host_ns, side, 'a'), 'b_host_ns': of_side(host_ns, side, 'b'),
    'a_gpu_ns': of_side(gpu_ns, side, 'a'), 'b_gpu_ns': of_side(gpu_ns, side, 'b'),
    'change_ns': of_side(host_ns + gpu_ns, side, 'b') - of_side(host_ns + gpu_ns, side, 'a')
};

-- How an item changed: added, removed, in count, in time, or not at all.
CREATE OR REPLACE MACRO change_of(a_count, b_count, change_ns) AS
    CASE WHEN a_count = 0 THEN 'added' WHEN b_count = 0 THEN 'removed' WHEN a_count <> b_count THEN 'count'
        WHEN change_ns <> 0 THEN 'time' ELSE 'same' END;
