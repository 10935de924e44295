-- fact: A time window over which shares are computed, of one device.
-- needs: judged_steps, trace_span
-- of: gpu_ops
--   gpu_active  start of the first GPU op to end of the last one
--   step        begins when the host has begun it and all devices have finished earlier work, and ends when
-- the host has left it and they have finished the work launched so far; only for the first
-- thresholds().stepped_devices of ranked_devices. Ops without a launch that start before all others are
-- earlier work, too
--   trace       the start of the first host slice or GPU op to the end of the last one
CREATE TABLE windows (
    trace_id INTEGER, device_id BIGINT,
    kind     VARCHAR, -- gpu_active, step or trace
    name VARCHAR, start_ns BIGINT, end_ns BIGINT,
    is_main  BOOLEAN  -- a step by which the run is judged; NULL: no step
);
WITH active AS (
    SELECT trace_id, device_id, min(start_ns) AS start_ns, max(end_ns) AS end_ns FROM gpu_ops GROUP BY ALL
),
worked AS (
    SELECT trace_id, start_ns, end_ns, launch_start_ns,
           min(start_ns) FILTER (launch_id IS NOT NULL) OVER (PARTITION BY trace_id) AS first_ns
    FROM gpu_ops WHERE trace_id IN (SELECT trace_id FROM judged_steps)
),
finished AS (
    SELECT trace_id, coalesce(launch_start_ns, -thresholds().late_time_ns) AS at_ns,
           max(end_ns) OVER (PARTITION BY trace_id ORDER BY at_ns) AS end_ns
    FROM worked WHERE launch_start_ns IS NOT NULL OR start_ns < first_ns
),
begun AS (
    SELECT s.*, greatest(s.start_ns, coalesce(f.end_ns, s.start_ns)) AS begin_ns
    FROM judged_steps AS s ASOF LEFT JOIN finished AS f ON s.trace_id = f.trace_id AND s.start_ns > f.at_ns
),
step AS (
    SELECT s.trace_id, s.name, s.begin_ns AS start_ns,
           greatest(s.end_ns, coalesce(f.end_ns, s.end_ns)) AS end_ns, is_main
    FROM begun AS s ASOF LEFT JOIN finished AS f ON s.trace_id = f.trace_id AND s.end_ns > f.at_ns
)
SELECT trace_id, device_id, 'gpu_active' AS kind, 'GPU-active span' AS name, start_ns, end_ns, NULL AS is_main
FROM active
UNION ALL
SELECT trace_id, device_id, 'step', name, start_ns, end_ns, is_main
FROM step JOIN ranked_devices USING (trace_id) WHERE place <= thresholds().stepped_devices
UNION ALL
SELECT trace_id, device_id, 'trace', 'whole trace', s.start_ns, s.end_ns, NULL
FROM trace_span AS s JOIN active USING (trace_id)
