-- question: How much time do kernels of each class take?
-- params trace
-- columns trace_id, device_id, class, count, total_ns
-- doubts: no_gpu_ops, absurd_duration
SELECT trace_id, device_id, class, count(*) AS count, sum(dur_ns)::BIGINT AS total_ns
FROM gpu_ops WHERE kind = 'kernel' AND trace_id = coalesce(getvariable('trace'), trace_id)
GROUP BY ALL
ORDER BY trace_id, device_id, total_ns DESC, class
