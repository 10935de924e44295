-- question: How much time do kernels of each class take?
-- param trace (integer, default all): the trace_id to look at
-- column trace_id (id): the trace
-- column device_id (id): the device
-- column class (text): gemm, attention, convolution, normalization, reduction, elementwise, copy,
--     communication, triton or other, by name
-- column count (count): kernels
-- column total_ns (ns): sum of their durations
-- doubts: no_gpu_ops, absurd_duration
SELECT trace_id, device_id, class, count, total_ns
FROM kernel_time()
WHERE trace_id = coalesce(getvariable('trace'), trace_id)
ORDER BY trace_id, device_id, total_ns DESC, class
