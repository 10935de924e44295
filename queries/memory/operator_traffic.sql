-- question: How many bytes does each operator move, judging by its shapes, and how fast?
-- since: 0.1
-- params top
-- columns device_id, operator, known_from
-- column kind (text): mm, convolution, attention, normalization, elementwise, reduction, copy ...
-- columns calls
-- column read_bytes (bytes): bytes of its inputs, each read once, without the destination (out=). Triton
--     kernels are assumed to write their last tensor and read the others; in place, they read all
-- column written_bytes (bytes): bytes of its outputs, each written once; in place, of its first tensor
-- column gpu_ns (ns): sum over calls of the union of each call's GPU ops
-- columns gb_per_s, share_of_bandwidth
-- doubts: no_gpu_ops, no_shapes, unknown_device, unlinked_gpu_ops
SELECT
    w.trace_id, w.device_id, w.name AS operator, known_from, kind, count(*) AS calls,
    sum(w.read_bytes)::BIGINT AS read_bytes, sum(w.written_bytes)::BIGINT AS written_bytes,
    sum(busy_ns)::BIGINT AS gpu_ns, sum(w.read_bytes + w.written_bytes) / sum(busy_ns) AS gb_per_s,
    gb_per_s * 1e9 / any_value(p.memory_bytes_per_s) AS share_of_bandwidth
FROM (FROM all_work WHERE is_asked(trace_id)) AS w
LEFT JOIN device_peaks AS p ON w.trace_id = p.trace_id AND w.device_id = p.device_id
GROUP BY w.trace_id, w.device_id, w.name, known_from, kind
ORDER BY gpu_ns DESC, operator, known_from, trace_id
LIMIT coalesce(getvariable('top'), 20)
