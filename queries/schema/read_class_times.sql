-- The time of each class of kernels: the sum of their durations.
SELECT trace_id, class, sum(dur_ns)::BIGINT AS total_ns FROM gpu_ops WHERE kind = 'kernel' GROUP BY ALL
