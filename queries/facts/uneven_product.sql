-- fact: A kernel of a matrix product that takes very different times for the same work, alone on its device.
-- needs: operator_time, replayed_work
-- of: operator_work, gpu_ops
-- when: class = 'gemm' AND event_count >= thresholds().uneven_calls AND longest_ns >= thresholds().uneven_ns
-- scope: all
-- The same work is one kernel on one grid, for inputs of the same shapes and types. Another program on the
-- device stretches it, or another clock does; so do ops beside it, whose kernels are left out.
CREATE TABLE uneven_product (
    trace_id  INTEGER, event_id BIGINT, -- the kernel
    device_id BIGINT,
    product   VARCHAR, -- the operator and its factors
    calls     BIGINT,  -- kernels of this work
    usual_ns  BIGINT,  -- what it takes undisturbed: a low quantile of their times
    slow_ns   BIGINT,  -- the quantile as far from the longest
    excess_ns BIGINT   -- how much longer this kernel takes
);
WITH product AS MATERIALIZED (
    SELECT g.trace_id, g.device_id, g.event_id, g.start_ns, g.end_ns, g.dur_ns,
           {'label': g.label_id, 'grid': g.grid, 'name': w.name, 'kind': w.kind, 'dims': dims,
               'types': types} AS work
    FROM (SELECT * EXCLUDE gpu_op_ids, unnest(gpu_op_ids) AS gpu_op_id FROM all_work
        WHERE kind IN ('mm', 'addmm', 'bmm', 'baddbmm', 'linear')) AS w
    JOIN gpu_ops AS g ON w.trace_id = g.trace_id AND w.gpu_op_id = g.event_id
    WHERE g.class = 'gemm' AND g.dur_ns > 0
    WINDOW alike AS (PARTITION BY g.trace_id, g.device_id, work)
    QUALIFY count(*) OVER alike >= thresholds().uneven_calls
        AND max(g.dur_ns) OVER alike >= thresholds().uneven_ratio * min(g.dur_ns) OVER alike
),
op AS MATERIALIZED (
    SELECT {'trace_id': trace_id, 'device_id': device_id} AS key, event_id, start_ns, end_ns
    FROM gpu_ops SEMI JOIN product USING (trace_id, device_id)
),
at_once AS MATERIALIZED (FROM interval_depth('op')),
shared AS MATERIALIZED (FROM at_once WHERE depth > 1),
kernel AS MATERIALIZED (
    SELECT {'trace_id': trace_id, 'device_id': device_id} AS key, event_id, start_ns, end_ns FROM product
),
beside AS (SELECT key.trace_id AS trace_id, event_id FROM interval_covered('kernel', 'shared')
    WHERE covered_ns > 0),
alone AS (FROM product ANTI JOIN beside USING (trace_id, event_id)),
uneven AS (
    SELECT *, count(*) OVER alike AS calls, median(dur_ns) OVER alike AS median_ns,
           quantile_disc(dur_ns, thresholds().uneven_quantile) OVER alike AS usual_ns,
           quantile_disc(dur_ns, 1 - thresholds().uneven_quantile) OVER alike AS slow_ns,
           greatest(0, dur_ns - usual_ns) AS excess_ns
    FROM alone
    WINDOW alike AS (PARTITION BY trace_id, device_id, work)
    QUALIFY calls >= thresholds().uneven_calls AND median_ns >= thresholds().uneven_ns
        AND slow_ns >= thresholds().uneven_ratio * usual_ns
)
SELECT trace_id, event_id, device_id,
       work.name || ' of ' || array_to_string(
           (shapes_of(work.dims)[if(work.kind IN ('addmm', 'baddbmm'), 2, 1):])[:2]::VARCHAR[], ' by '),
       calls, usual_ns, slow_ns, excess_ns
FROM uneven JOIN (
    SELECT key, sum(end_ns - start_ns) AS busy_ns FROM at_once WHERE depth > 0 GROUP BY key
) ON trace_id = key.trace_id AND device_id = key.device_id
QUALIFY sum(excess_ns) OVER (PARTITION BY trace_id, device_id) >= thresholds().uneven_share * busy_ns
