-- fact: An operator with its work and the time in which a device did it.
-- needs: thread_slice
-- of: operator_work, gpu_ops
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
WITH RECURSIVE op AS MATERIALIZED (
    SELECT g.trace_id, cpu_op_id AS op_id, outer_op_id, g.device_id, g.event_id, g.stream, g.start_ns,
           g.end_ns, l.format = 'tf32' AS is_tf32, g.class NOT IN ('memcpy', 'memset') AS is_kernel,
           -- Copies over a bus are not compared with the device's memory bandwidth: see memory_traffic.
           g.class = 'memcpy' AND NOT regexp_matches(g.name, 'DtoD|DeviceToDevice') AS crosses
    FROM gpu_ops AS g JOIN thread_slice AS s ON g.trace_id = s.trace_id AND g.launch_id = s.event_id
    JOIN slice_label AS l USING (label_id)
    WHERE cpu_op_id IS NOT NULL
),
-- An inner operator without work that launches, with those around it, up to one with work.
around AS (
    SELECT DISTINCT trace_id, op_id, op_id AS at_id
    FROM op ANTI JOIN operator_work AS o ON op.trace_id = o.trace_id AND op_id = o.event_id
    WHERE op_id <> outer_op_id
    UNION ALL
    SELECT a.trace_id, op_id, p.cpu_op_id
    FROM (
        FROM around ANTI JOIN operator_work AS o ON around.trace_id = o.trace_id AND at_id = o.event_id
    ) AS a
    JOIN thread_slice AS s ON a.trace_id = s.trace_id AND a.at_id = s.event_id
    JOIN thread_slice AS p ON s.trace_id = p.trace_id AND s.parent_id = p.event_id
    WHERE p.cpu_op_id IS NOT NULL
),
inner_op AS (
    SELECT op.* EXCLUDE outer_op_id REPLACE (coalesce(at_id, op_id) AS op_id)
    FROM op LEFT JOIN (
        FROM around SEMI JOIN operator_work AS o ON around.trace_id = o.trace_id AND at_id = o.event_id
    ) USING (trace_id, op_id)
),
named AS MATERIALIZED (
    SELECT trace_id, op_id, device_id, count(*) AS ops, sum(end_ns - start_ns)::BIGINT AS sum_ns,
           bool_or(is_tf32) AS is_tf32, min(event_id) AS event_id, min(start_ns) AS first_ns,
           any_value(stream) AS stream, bool_and(is_kernel) AS is_kernels
    FROM inner_op WHERE NOT crosses GROUP BY trace_id, op_id, device_id
),
-- Most operators launch one op, whose time needs no union.
several AS MATERIALIZED (
    SELECT {'trace_id': trace_id, 'op_id': op_id, 'device_id': device_id} AS key, event_id, start_ns, end_ns
    FROM inner_op SEMI JOIN (FROM named WHERE ops > 1) USING (trace_id, op_id, device_id) WHERE NOT crosses
),
united AS (
    SELECT key, gpu_op_ids, union_ns
    FROM (SELECT key, list(event_id ORDER BY start_ns, event_id) AS gpu_op_ids FROM several GROUP BY key)
    LEFT JOIN (
        SELECT key, sum(end_ns - start_ns)::BIGINT AS union_ns FROM interval_union('several') GROUP BY key
    ) USING (key)
),
-- What a copy over a bus does on the device is a part of it. Others wait for a number, such as their output's
-- size.
crossing AS (FROM inner_op WHERE crosses)
SELECT o.trace_id, o.event_id, o.name, o.kind, o.dims, o.types, is_matrix,
       CASE WHEN is_matrix AND is_tf32 AND peak = 'fp32' THEN 'tf32' ELSE peak END AS peak,
       flops, read_bytes, written_bytes, weight_bytes, is_exact, device_id, stream,
       o.start_ns, is_kernels, coalesce(gpu_op_ids, [n.event_id]) AS gpu_op_ids, first_ns,
       coalesce(union_ns, sum_ns) AS busy_ns
FROM operator_work AS o JOIN named AS n ON o.trace_id = n.trace_id AND o.event_id = op_id
LEFT JOIN united ON n.trace_id = key.trace_id AND n.op_id = key.op_id AND n.device_id = key.device_id
WHERE busy_ns > 0
    AND NOT (o.kind = 'copy' AND EXISTS (FROM crossing AS x
        WHERE x.trace_id = o.trace_id AND x.op_id = o.event_id))
