-- question: What kinds of kernel is the GPU time spent in?
-- param trace (integer, default all): the trace_id to look at
-- column trace_id (id): the trace
-- column device_id (id): the device
-- column class (text): gemm, attention, convolution, normalization, reduction, elementwise, copy, communication, triton or other, by name
-- column count (count): kernels
-- column total_ns (ns): sum of their durations
-- column share_of_kernel_time (fraction of summed kernel time): total_ns over the device's sum of kernel durations
SELECT
    trace_id, device_id, class, count(*) AS count, sum(dur_ns)::BIGINT AS total_ns,
    sum(dur_ns) / sum(sum(dur_ns)) OVER (PARTITION BY trace_id, device_id) AS share_of_kernel_time
FROM kernels
WHERE trace_id = coalesce(getvariable('trace'), trace_id)
GROUP BY trace_id, device_id, class
ORDER BY trace_id, device_id, total_ns DESC
