-- fact: An operator that a graph's replay ran, with its work by the shapes of the capture.
-- of: graph_site, operator_work
-- scope: all
CREATE TABLE replayed_work (
    trace_id  INTEGER, -- the trace
    launch_id BIGINT,  -- the replay
    name VARCHAR, dims JSON, is_matrix BOOLEAN, flops DOUBLE, read_bytes BIGINT,
    written_bytes BIGINT, device_id BIGINT, peak VARCHAR, gpu_op_ids BIGINT[],
    busy_ns   BIGINT   -- the sum of its kernels' times
);
WITH run AS (
    SELECT trace_id, launch_id, device_id, capture_trace_id, cpu_op_id, sum(dur_ns)::BIGINT AS busy_ns,
           list(event_id ORDER BY place) AS gpu_op_ids, bool_or(is_tf32) AS is_tf32
    FROM graph_site
    LEFT JOIN (SELECT name, has(traits, 'tf32') AS is_tf32 FROM gpu_op_name WHERE kind = 'kernel')
        USING (name)
    WHERE cpu_op_id IS NOT NULL
    GROUP BY ALL
)
SELECT r.trace_id, r.launch_id, o.name, o.dims, is_matrix, flops, read_bytes, written_bytes, r.device_id,
       CASE WHEN is_matrix AND is_tf32 AND peak = 'fp32' THEN 'tf32' ELSE peak END AS peak,
       gpu_op_ids, busy_ns
FROM run AS r JOIN operator_work AS o
  ON r.capture_trace_id = o.trace_id AND r.cpu_op_id = o.event_id
WHERE busy_ns > 0
