-- question: How deep was each stream's launch queue, over time?
-- since: 0.1
-- columns device_id, stream, start_ns, end_ns
-- column depth (count): launches whose work has not started; a graph counts once
-- doubts: no_gpu_ops, unlinked_gpu_ops, starts_before_launch
WITH waiting AS (FROM queued_launches WHERE is_queued)
SELECT key.trace_id, key.device_id, key.stream, start_ns, end_ns, depth
FROM interval_depth('waiting')
ORDER BY key, start_ns
