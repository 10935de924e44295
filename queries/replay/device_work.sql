-- question: What did each device do, launched by whom, and what limited each op?
-- param trace (integer, default all): the trace_id to look at
-- param latency_percent (integer, default 10): an op that reaches less of both roofs is limited by latency
-- param short_ns (integer, default 8000): so is one of unknown work that is shorter
-- column trace_id (id): the trace
-- column event_id (id): the GPU op
-- column device_id (id): the device
-- column stream (id): the stream
-- column start_ns (ns): where it starts, by the device's clock
-- column dur_ns (ns): how long it takes
-- column cause (text): what limits it: communication, copy, math, memory-bandwidth or latency; by the roofline where the operator's work and the device's peaks are known, by its class elsewhere
-- column launch_id (id): the call that launched it; NULL: not in the trace
-- column pid (id): the launching process
-- column tid (id): the launching thread
-- column launch_start_ns (ns): where the call begins
-- column launch_end_ns (ns): where it ends
-- column is_graph (boolean): the call launched a graph
-- column is_blocking (boolean): the call did not return before the op had ended
-- doubts: no_gpu_ops, unlinked_gpu_ops, no_shapes, unknown_device, starts_before_launch
WITH held AS (
    SELECT w.trace_id, gpu_op_ids, busy_ns,
           (flops * 1e9 / peak_of(p.flop_per_s, CASE WHEN is_matrix THEN peak ELSE 'fp32' END, is_matrix))::BIGINT AS math_ns,
           ((read_bytes + written_bytes) * 1e9 / p.memory_bytes_per_s)::BIGINT AS memory_ns
    FROM measured_work() AS w JOIN device_peaks AS p ON w.trace_id = p.trace_id AND w.device_id = p.device_id
),
bound AS (
    SELECT trace_id, unnest(gpu_op_ids) AS event_id, roof_bound(math_ns, memory_ns, busy_ns, coalesce(getvariable('latency_percent'), 10)) AS roof
    FROM held
)
SELECT
    op.trace_id, op.event_id, op.device_id, op.stream, op.start_ns, op.dur_ns,
    CASE WHEN op.activity <> 'compute' THEN op.activity
         WHEN roof = 'memory' THEN 'memory-bandwidth' WHEN roof IS NOT NULL THEN roof
         WHEN dur_ns < coalesce(getvariable('short_ns'), 8000) THEN 'latency'
         WHEN class IN ('gemm', 'attention', 'convolution') THEN 'math'
         ELSE 'memory-bandwidth' END AS cause,
    l.launch_id, l.pid, l.tid, l.launch_start_ns, l.launch_end_ns, contains(l.launch_name, 'GraphLaunch') AS is_graph, l.is_blocking
FROM gpu_ops AS op
LEFT JOIN gpu_op_link AS l ON op.trace_id = l.trace_id AND op.event_id = l.event_id
LEFT JOIN bound AS b ON op.trace_id = b.trace_id AND op.event_id = b.event_id
WHERE op.trace_id = coalesce(getvariable('trace'), op.trace_id)
ORDER BY op.trace_id, op.device_id, op.stream, op.start_ns, op.event_id
