-- question: What limits each GPU op?
-- param trace (integer, default all): the trace_id to look at
-- param latency_percent (integer, default thresholds().latency_percent): an op that reaches less of both
--     roofs is limited by latency
-- param short_ns (integer, default thresholds().launch_floor_ns): so is one of unknown work that is shorter
-- column trace_id (id): the trace
-- column event_id (id): the GPU op; rows are in the order of device_work
-- column cause (text): communication, copy, math, memory-bandwidth or latency; by the roofline where the
--     operator's work and the device's peaks are known, by its class elsewhere
-- doubts: no_gpu_ops, unlinked_gpu_ops, no_shapes, unknown_device
WITH held AS (
    SELECT w.trace_id, gpu_op_ids, busy_ns,
           math_roof_ns(flops, p.flop_per_s, peak, is_matrix)::BIGINT AS math_ns,
           memory_roof_ns(read_bytes + written_bytes, p.memory_bytes_per_s)::BIGINT AS memory_ns
    FROM measured_work() AS w JOIN device_peaks AS p ON w.trace_id = p.trace_id AND w.device_id = p.device_id
),
bound AS (
    SELECT trace_id, unnest(gpu_op_ids) AS event_id,
           roof_bound(math_ns, memory_ns, busy_ns,
               coalesce(getvariable('latency_percent'), thresholds().latency_percent)) AS roof
    FROM held
)
SELECT
    op.trace_id, op.event_id,
    CASE WHEN op.activity <> 'compute' THEN op.activity
         WHEN roof = 'memory' THEN 'memory-bandwidth' WHEN roof IS NOT NULL THEN roof
         WHEN dur_ns < coalesce(getvariable('short_ns'), thresholds().launch_floor_ns) THEN 'latency'
         WHEN class IN ('gemm', 'attention', 'convolution') THEN 'math'
         ELSE 'memory-bandwidth' END AS cause
FROM gpu_ops AS op LEFT JOIN bound AS b ON op.trace_id = b.trace_id AND op.event_id = b.event_id
WHERE op.trace_id = coalesce(getvariable('trace'), op.trace_id)
ORDER BY op.trace_id, op.device_id, op.stream, op.start_ns, op.event_id
