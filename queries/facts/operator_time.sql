-- fact: An operator with its work and the time in which a device did it.
-- of: operator_work, launch_call
-- The union of the GPU ops that were launched during the operator and not by another inside it, per device.
CREATE TABLE operator_time (
    trace_id INTEGER, event_id BIGINT, -- the operator's event
    name VARCHAR,
    kind       VARCHAR,  -- of work
    dims JSON, types JSON, is_matrix BOOLEAN,
    peak       VARCHAR,  -- as in operator_work; tf32 if its kernels use that
    flops DOUBLE, read_bytes BIGINT, written_bytes BIGINT, weight_bytes BIGINT, is_exact BOOLEAN,
    device_id BIGINT, stream BIGINT,
    start_ns   BIGINT,   -- the host's start of it
    is_kernels BOOLEAN,  -- no copies or fills are among its GPU ops
    gpu_op_ids BIGINT[], -- in order of their start
    first_ns   BIGINT,   -- start of the first
    busy_ns    BIGINT    -- their union
);
WITH slice AS MATERIALIZED (
    SELECT trace_id, pid, tid, event_id, start_ns, end_ns, dur_ns FROM operator_work
    UNION ALL
    SELECT trace_id, pid, tid, launch_id, start_ns, start_ns, 0
    FROM launch_call SEMI JOIN operator_work USING (trace_id, pid, tid)
),
nest AS (FROM nested('slice')),
op AS MATERIALIZED (
    SELECT {'trace_id': n.trace_id, 'event_id': n.parent_id, 'device_id': g.device_id} AS key, g.start_ns,
           g.end_ns, g.event_id, g.stream, g.class, l.format = 'tf32' AS is_tf32,
           -- Copies over a bus are not compared with the device's memory bandwidth: see memory_traffic.
           g.class = 'memcpy' AND NOT regexp_matches(g.name, 'DtoD|DeviceToDevice') AS crosses
    FROM nest AS n JOIN gpu_ops AS g ON n.trace_id = g.trace_id AND n.event_id = g.launch_id
    JOIN slice_label AS l USING (label_id)
    WHERE n.parent_id IS NOT NULL
),
named AS MATERIALIZED (
    SELECT key, count(*) AS ops, sum(end_ns - start_ns)::BIGINT AS sum_ns, bool_or(is_tf32) AS is_tf32,
           list({'start_ns': start_ns, 'event_id': event_id}) AS gpu_ops, any_value(stream) AS stream,
           bool_and(class NOT IN ('memcpy', 'memset')) AS is_kernels
    FROM op WHERE NOT crosses GROUP BY key
),
-- Most operators launch one op, whose time needs no union.
several AS MATERIALIZED (FROM op SEMI JOIN (FROM named WHERE ops > 1) USING (key) WHERE NOT crosses),
-- What a copy over a bus does on the device is a part of it. Others wait for a number, such as their output's
-- size.
crossing AS (FROM op WHERE crosses)
SELECT o.trace_id, o.event_id, o.name, o.kind, o.dims, o.types, is_matrix,
       CASE WHEN is_matrix AND is_tf32 AND peak = 'fp32' THEN 'tf32' ELSE peak END AS peak,
       flops, read_bytes, written_bytes, weight_bytes, is_exact, key.device_id AS device_id, stream,
       o.start_ns, is_kernels,
       [op.event_id FOR op IN list_sort(gpu_ops)] AS gpu_op_ids, list_min(gpu_ops).start_ns AS first_ns,
       coalesce(union_ns, sum_ns) AS busy_ns
FROM operator_work AS o JOIN named ON o.trace_id = key.trace_id AND o.event_id = key.event_id
LEFT JOIN (SELECT key, sum(end_ns - start_ns)::BIGINT AS union_ns FROM interval_union('several') GROUP BY key)
    USING (key)
WHERE busy_ns > 0
    AND NOT (o.kind = 'copy' AND EXISTS (FROM crossing AS x
        WHERE x.key.trace_id = o.trace_id AND x.key.event_id = o.event_id))
