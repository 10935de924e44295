-- question: How much GPU time does each kernel class take, and how much of it overlaps other classes?
-- since: 0.1
-- columns device_id, class, count, total_ns, share_of_kernel_time
-- column covered_ns (ns): time during which at least one of the class's kernels ran
-- column alone_ns (ns): the part of covered_ns during which no other class ran
-- column overlapped_ns (ns): the rest of covered_ns
-- doubts: no_gpu_ops, absurd_duration
WITH kernel AS (
    SELECT {'trace_id': trace_id, 'device_id': device_id} AS key, class AS label, start_ns, end_ns
    FROM gpu_ops WHERE kind = 'kernel' AND is_asked(trace_id)
),
covered AS (
    SELECT key, unnest(labels) AS label, sum(end_ns - start_ns)::BIGINT AS covered_ns,
           sum_where(end_ns - start_ns, len(labels) = 1) AS alone_ns
    FROM interval_labels('kernel') GROUP BY key, label
),
summed AS (SELECT key, label, count(*) AS count, sum(end_ns - start_ns)::BIGINT AS total_ns FROM kernel
    GROUP BY ALL)
SELECT
    key.trace_id, key.device_id, label AS class, count, total_ns,
    total_ns / nullif(sum(total_ns) OVER (PARTITION BY key), 0) AS share_of_kernel_time,
    coalesce(covered_ns, 0) AS covered_ns, coalesce(alone_ns, 0) AS alone_ns,
    coalesce(covered_ns - alone_ns, 0) AS overlapped_ns
FROM summed LEFT JOIN covered USING (key, label)
ORDER BY key, total_ns DESC, class
