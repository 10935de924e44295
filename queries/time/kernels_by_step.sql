-- question: Which kernels take the most GPU time in each step?
-- param trace (integer, default all): the trace_id to look at
-- param top (integer, default 20): how many kernels of a step
-- column trace_id (id): the trace
-- column step (id): the profiler step that launched it
-- column name (text): the kernel
-- column class (text): its class, by its name
-- column count (count): how often it ran
-- column total_ns (ns): sum of its durations
-- column mean_ns (ns): rounded down
-- column max_ns (ns): the longest
-- doubts: no_gpu_ops, no_steps, unlinked_gpu_ops, absurd_duration
SELECT trace_id, step, op.name, op.class::VARCHAR AS class, count(*) AS count,
       sum(op.dur_ns)::BIGINT AS total_ns, sum(op.dur_ns)::BIGINT // count(*) AS mean_ns,
       max(op.dur_ns) AS max_ns
FROM gpu_op_origin AS o JOIN gpu_ops AS op USING (trace_id, event_id)
WHERE op.kind = 'kernel' AND step IS NOT NULL AND trace_id = coalesce(getvariable('trace'), trace_id)
GROUP BY trace_id, step, op.name, op.class
QUALIFY row_number() OVER (PARTITION BY trace_id, step ORDER BY total_ns DESC, op.name)
    <= coalesce(getvariable('top'), 20)
ORDER BY trace_id, step, total_ns DESC, op.name
