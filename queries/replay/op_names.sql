-- question: Which GPU ops have the same name?
-- since: 0.1
-- columns event_id
-- column name_id (id): number of the name, from 1
-- doubts: no_gpu_ops
SELECT trace_id, event_id, dense_rank() OVER (PARTITION BY trace_id ORDER BY name) AS name_id
FROM gpu_ops WHERE is_asked(trace_id)
ORDER BY trace_id, event_id
