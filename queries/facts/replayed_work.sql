-- fact: An operator that a replay of a graph ran, with its work, from the capture's shapes.
-- of: graph_site, operator_work
-- scope: all
-- Its columns are those of operator_time.
CREATE TABLE replayed_work (
    trace_id  INTEGER, -- the trace
    event_id  BIGINT,  -- the captured operator; of another trace's capture, the replay's launch
    launch_id BIGINT,  -- the replay
    name VARCHAR, kind VARCHAR, dims JSON, types JSON, is_matrix BOOLEAN, peak VARCHAR, flops DOUBLE,
    read_bytes BIGINT, written_bytes BIGINT, weight_bytes BIGINT, is_exact BOOLEAN, device_id BIGINT,
    stream BIGINT,
    start_ns  BIGINT,  -- where the host launches the replay
    gpu_op_ids BIGINT[], first_ns BIGINT,
    busy_ns   BIGINT,  -- the sum of its kernels' times
    known_from VARCHAR -- capture by node, or capture by order
);
WITH run AS (
    SELECT s.trace_id, s.launch_id, s.device_id, capture_trace_id, cpu_op_id,
           any_value(op_from) AS known_from, sum(s.dur_ns)::BIGINT AS busy_ns,
           list(event_id ORDER BY place) AS gpu_op_ids, bool_or(is_tf32) AS is_tf32,
           arg_min(k.stream, place) AS stream, min(k.start_ns) AS first_ns,
           any_value(launch_start_ns) AS start_ns
    FROM graph_site AS s JOIN gpu_ops AS k USING (trace_id, event_id)
    LEFT JOIN (SELECT name, format = 'tf32' AS is_tf32 FROM gpu_op_name WHERE kind = 'kernel') AS n
      ON s.name = n.name
    WHERE cpu_op_id IS NOT NULL
    GROUP BY ALL
)
SELECT r.trace_id, CASE WHEN r.trace_id = o.trace_id THEN o.event_id ELSE r.launch_id END AS event_id,
       r.launch_id, o.name, kind, o.dims, types, is_matrix,
       CASE WHEN is_matrix AND is_tf32 AND peak = 'fp32' THEN 'tf32' ELSE peak END AS peak,
       flops, read_bytes, written_bytes, weight_bytes, is_exact, r.device_id, stream, r.start_ns, gpu_op_ids,
       first_ns, busy_ns,
       known_from
FROM run AS r JOIN operator_work AS o ON r.capture_trace_id = o.trace_id AND r.cpu_op_id = o.event_id
WHERE busy_ns > 0
