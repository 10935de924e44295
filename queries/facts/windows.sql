-- fact: A time window over which shares are computed, of one device.
-- needs: steps, trace_span
-- of: gpu_ops
--   gpu_active  start of the first GPU op to end of the last one
--   step        a profiler step, as the host ran it; only for the first thresholds().stepped_devices
--               of ranked_devices
--   trace       the start of the first host slice or GPU op to the end of the last one
CREATE TABLE windows (
    trace_id INTEGER, -- the trace
    device_id BIGINT,
    kind     VARCHAR, -- gpu_active, step or trace
    name VARCHAR, start_ns BIGINT, end_ns BIGINT
);
WITH active AS (
    SELECT trace_id, device_id, min(start_ns) AS start_ns, max(end_ns) AS end_ns FROM gpu_ops GROUP BY ALL
)
SELECT trace_id, device_id, 'gpu_active' AS kind, 'GPU-active span' AS name, start_ns, end_ns FROM active
UNION ALL
SELECT trace_id, device_id, 'step', steps.name, steps.start_ns, steps.end_ns
FROM steps JOIN ranked_devices USING (trace_id) WHERE place <= thresholds().stepped_devices
UNION ALL
SELECT trace_id, device_id, 'trace', 'whole trace', s.start_ns, s.end_ns
FROM trace_span AS s JOIN active USING (trace_id)
