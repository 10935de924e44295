-- question: Which kernels were added, removed, or changed in count or time, from a to b?
-- since: 0.1
-- of: several traces
-- params a, b, top
-- column kernel (text): matrix products, convolutions and attention by operator and shapes if both traces
--     have shapes for nine tenths of their time; collectives by type; others by name without parameters
--     and architecture, with # for each number
-- columns class, change, a_count, b_count, a_ns, b_ns, change_ns
-- column a_name (text): one of its full names in a; NULL: not in a
-- column b_name (text): one of its full names in b; NULL: not in b
-- doubts: no_gpu_ops, no_shapes, unlinked_gpu_ops, absurd_duration
WITH kernel AS (
    SELECT side, steps, g.name, g.class, c.type, g.dur_ns, coalesce(s.cpu_op, n.name) AS operator,
           CASE WHEN g.class IN ('gemm', 'convolution', 'attention')
               AND operator IN (SELECT name FROM slice_label WHERE work IS NOT NULL)
               THEN coalesce(s.dims, (o.args->'Input Dims')::VARCHAR) END AS dims
    FROM gpu_ops AS g JOIN compared_runs USING (trace_id)
    LEFT JOIN thread_slice AS h ON g.trace_id = h.trace_id AND g.launch_id = h.event_id
    LEFT JOIN event_row AS o ON h.trace_id = o.trace_id AND h.cpu_op_id = o.event_id
    LEFT JOIN slice_label AS n ON h.op_label = n.label_id
    LEFT JOIN graph_site AS s ON g.trace_id = s.trace_id AND g.event_id = s.event_id
    LEFT JOIN collective AS c ON g.trace_id = c.trace_id AND g.event_id = c.event_id
    WHERE g.kind = 'kernel'
),
-- Shapes distinguish products only if nearly all of their time has shapes, on both sides.
shape_use AS (
    SELECT min(shaped) >= thresholds().shaped_share AS by_shape FROM (
        SELECT side, sum(dur_ns) FILTER (dims IS NOT NULL) / nullif(sum(dur_ns), 0) AS shaped FROM kernel
        WHERE class IN ('gemm', 'convolution', 'attention') GROUP BY side
    ) HAVING count(shaped) = 2
),
keyed AS (
    SELECT *, CASE WHEN by_shape AND dims IS NOT NULL THEN concat_ws(' ', operator, dims)
                   ELSE coalesce(nullif(type, 'other'), regexp_replace(regexp_replace(
                       regexp_replace(name, '\([^()]*\)( const)?$|^void ', '', 'g'),
                       '(?i)^(sm[0-9]+_xmma|ampere|volta|turing|hopper|maxwell|sm[0-9]+)_', ''
                   ), '[0-9]+', '#', 'g')) END AS kernel
    FROM kernel LEFT JOIN shape_use ON TRUE
),
summed AS (
    SELECT side, kernel, any_value(class) AS class, count(*) / steps AS count,
           (sum(dur_ns) // steps)::BIGINT AS ns, min(name) AS name
    FROM keyed GROUP BY side, kernel, steps
),
compared AS (
    SELECT kernel, any_value(class) AS class, of_side(count, side, 'a') AS a_count,
           of_side(count, side, 'b') AS b_count, of_side(ns, side, 'a') AS a_ns,
           of_side(ns, side, 'b') AS b_ns, any_value(name) FILTER (side = 'a') AS a_name,
           any_value(name) FILTER (side = 'b') AS b_name
    FROM summed GROUP BY kernel
)
SELECT kernel, class, change_of(a_count, b_count, b_ns - a_ns) AS change, a_count, b_count, a_ns, b_ns,
       b_ns - a_ns AS change_ns, a_name, b_name
FROM compared
ORDER BY abs(change_ns) DESC, kernel
LIMIT coalesce(getvariable('top'), 20)
