-- question: Which kernels take the most GPU time?
-- param trace (integer, default all): the trace_id to look at
-- param top (integer, default 20): how many kernels
-- column trace_id (id): the trace
-- column name (text): the kernel
-- column class (text): gemm, attention, convolution, normalization, reduction, elementwise, copy, communication, triton or other, by its name
-- column count (count): how often it ran
-- column total_ns (ns): sum of its durations
-- column mean_ns (ns): rounded down
-- column max_ns (ns): the longest
-- column share_of_kernel_time (fraction of summed kernel time): total_ns over the sum of all kernels' durations in the trace
-- column cpu_op (text): the operator that launched it most often
SELECT
    trace_id, name, class, count(*) AS count, sum(dur_ns)::BIGINT AS total_ns, sum(dur_ns)::BIGINT // count(*) AS mean_ns,
    max(dur_ns) AS max_ns, sum(dur_ns) / sum(sum(dur_ns)) OVER (PARTITION BY trace_id) AS share_of_kernel_time,
    mode(cpu_op) AS cpu_op
FROM kernels LEFT JOIN (SELECT trace_id, event_id, cpu_op FROM gpu_op_origin) USING (trace_id, event_id)
WHERE trace_id = coalesce(getvariable('trace'), trace_id)
GROUP BY trace_id, name, class
ORDER BY total_ns DESC, name
LIMIT coalesce(getvariable('top'), 20)
