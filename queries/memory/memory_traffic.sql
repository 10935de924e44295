-- question: How many bytes were copied, in which direction, and how fast?
-- since: 0.1
-- columns device_id, copy_kind, count, bytes, total_ns, bytes_per_s
-- doubts: no_copies
SELECT trace_id, device_id, copy_kind, count(*) AS count, sum(bytes)::BIGINT AS bytes,
       sum(dur_ns)::BIGINT AS total_ns,
       sum(bytes) * 1e9 / nullif(sum(dur_ns) FILTER (bytes IS NOT NULL), 0) AS bytes_per_s
FROM gpu_ops WHERE copy_kind IS NOT NULL AND is_asked(trace_id)
GROUP BY ALL
ORDER BY trace_id, device_id, total_ns DESC, copy_kind
