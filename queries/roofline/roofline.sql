-- question: How fast did each operator run, how fast could it run, and which roof limits it?
-- since: 0.1
-- params top, latency_percent
-- columns device_id, operator, shapes, known_from
-- column format (text): format whose peak it is compared with: fp32, tf32, bf16, fp16, fp8, fp64, int8 ...
-- columns calls
-- column gpu_ns (ns): sum over calls of the union of a call's GPU ops; of a capture, the sum of its kernels
-- column flops (floating-point operations): of all calls, by shapes. A multiply-add is 2 operations. A
--     convolution's backward pass costs one forward pass for each gradient of input and weight, and nothing
--     for the bias. Normalization takes 8 an element, and 16 backward; softmax 5; other operators 1
-- column moved_bytes (bytes): minimum that all calls must read and write, by shapes. A Triton kernel is
--     assumed to write only its last tensor unless the trace shows that it works in place
-- columns tflop_per_s, gb_per_s
-- column math_ns (ns): flops over the device's dense peak; NULL: peak unknown
-- column memory_ns (ns): moved_bytes over the device's memory bandwidth; NULL: unknown
-- column bound (text): math or memory, the higher roof; latency: both far below the time; NULL: peaks unknown
-- column share_of_roof (fraction of the time taken): the longer of math_ns and memory_ns over gpu_ns
-- column peak_tflop_per_s (10^12 operations per second): the device's dense peak for the operator; NULL:
--     unknown
-- column memory_gb_per_s (10^9 bytes per second): the bandwidth of the device's memory; NULL: unknown
-- column kernel (text): the first GPU op of its longest call
-- doubts: no_gpu_ops, no_shapes, unknown_device, unlinked_gpu_ops
-- Roofline: Williams, Waterman, Patterson 2009 (https://doi.org/10.1145/1498765.1498785). Work other
-- than matrix products is compared with the vector units' fp32 peak.
WITH work AS (
    SELECT trace_id, device_id, name, dims, known_from, is_matrix, if(is_matrix, peak, 'fp32') AS format,
           count(*) AS calls, sum(busy_ns)::BIGINT AS gpu_ns, sum(flops) AS flops,
           sum(read_bytes + written_bytes)::BIGINT AS moved_bytes,
           arg_max(gpu_op_ids[1], (busy_ns, -gpu_op_ids[1])) AS kernel_id
    FROM all_work WHERE is_asked(trace_id) GROUP BY ALL
),
held AS (
    SELECT w.*, (flops * 1e9 / peak_of(p.flop_per_s, format, is_matrix))::BIGINT AS math_ns,
           (moved_bytes * 1e9 / p.memory_bytes_per_s)::BIGINT AS memory_ns,
           greatest(math_ns, memory_ns) AS roof_ns,
           peak_of(p.flop_per_s, format, is_matrix) AS peak_flop_per_s, p.memory_bytes_per_s
    FROM work AS w LEFT JOIN device_peaks AS p ON w.trace_id = p.trace_id AND w.device_id = p.device_id
)
SELECT
    h.trace_id, h.device_id, h.name AS operator, dims AS shapes, known_from, format, calls, gpu_ns, flops,
    moved_bytes, flops / gpu_ns / 1e3 AS tflop_per_s, moved_bytes / gpu_ns AS gb_per_s, math_ns, memory_ns,
    roof_bound(math_ns, memory_ns, gpu_ns,
        coalesce(getvariable('latency_percent'), thresholds().latency_percent)) AS bound,
    CASE WHEN math_ns IS NOT NULL AND memory_ns IS NOT NULL THEN roof_ns / gpu_ns END AS share_of_roof,
    peak_flop_per_s / 1e3 / 1e9 AS peak_tflop_per_s, memory_bytes_per_s / 1e9 AS memory_gb_per_s,
    k.name AS kernel
FROM held AS h JOIN gpu_ops AS k ON h.trace_id = k.trace_id AND h.kernel_id = k.event_id
ORDER BY gpu_ns DESC, operator, shapes, known_from, trace_id
LIMIT coalesce(getvariable('top'), 20)
