-- fact: The least work of another kernel in a graph's replay, by its place in another trace of the model.
-- into: kernel_bound
-- of: matched_product
-- scope: all
-- Between the same two products, as often called kernels of one name do the same work, on the step's tokens
-- in place of the other's. Part of the work is in proportion to them, and the rest, as reading weights, is
-- not: of fewer tokens it is at least the proportion, and of more at least as much.
-- Attention's kernels differ by the number of tokens. The first one between two products reads the queries
-- and, where the step's name tells how many, the keys and values of all earlier tokens, else at least those
-- of its own; the last one writes the result. So a layer with a window, whose operator does not say that it
-- has none, counts its own tokens alone.
WITH launch AS MATERIALIZED (
    SELECT trace_id, launch_id, known_trace_id, known_unit_id, any_value(tokens) AS tokens,
           any_value(step) AS step, any_value(known_tokens) AS known_tokens
    FROM _scratch.matched_product GROUP BY ALL
),
-- The kernels of a replay and of the unit, each with the number of products before it.
ran AS (
    SELECT g.trace_id, g.launch_id, g.event_id, g.name, g.class, g.start_ns,
           count(p.event_id) OVER (PARTITION BY g.trace_id, g.launch_id ORDER BY g.start_ns, g.event_id)
               AS place, p.event_id IS NOT NULL AS is_product
    FROM gpu_ops AS g SEMI JOIN launch USING (trace_id, launch_id)
    LEFT JOIN _scratch.matched_product AS p USING (trace_id, launch_id, event_id)
    WHERE g.kind = 'kernel' AND g.is_graph
),
known_product AS (
    SELECT DISTINCT known_trace_id AS trace_id, known_unit_id AS unit_id, known_id AS event_id
    FROM _scratch.matched_product
),
known AS (
    SELECT u.trace_id, u.unit_id, g.event_id, g.name, g.class, g.start_ns,
           count(p.event_id) OVER (PARTITION BY u.trace_id, u.unit_id ORDER BY g.start_ns, g.event_id)
               AS place, p.event_id IS NOT NULL AS is_product
    FROM unit_ops AS u JOIN gpu_ops AS g USING (trace_id, event_id)
    LEFT JOIN known_product AS p USING (trace_id, unit_id, event_id)
    WHERE g.kind = 'kernel' AND (u.trace_id, u.unit_id) IN (SELECT (trace_id, unit_id) FROM known_product)
),
replayed AS MATERIALIZED (
    SELECT *, row_number() OVER (same_name ORDER BY start_ns, event_id) AS turn,
           count(*) OVER same_name AS times,
           row_number() OVER (same_class ORDER BY start_ns, event_id) AS class_turn,
           count(*) OVER same_class AS class_times
    FROM ran WHERE NOT is_product
    WINDOW same_name AS (PARTITION BY trace_id, launch_id, place, name),
        same_class AS (PARTITION BY trace_id, launch_id, place, class)
),
called AS MATERIALIZED (
    SELECT *, row_number() OVER (same_name ORDER BY start_ns, event_id) AS turn,
           count(*) OVER same_name AS times
    FROM known WHERE NOT is_product
    WINDOW same_name AS (PARTITION BY trace_id, unit_id, place, name)
),
work AS MATERIALIZED (
    SELECT w.*, read_bytes + written_bytes AS moved FROM all_work AS w
    WHERE trace_id IN (SELECT trace_id FROM known_product) AND len(gpu_op_ids) = 1
),
attended AS (
    SELECT c.trace_id, c.unit_id, c.place, any_value(peak) AS peak, min(w.flops) AS flops,
           any_value(shapes_of(dims)) AS d, any_value(texts_of(types)) AS t
    FROM called AS c JOIN work AS w ON c.trace_id = w.trace_id AND c.event_id = w.gpu_op_ids[1]
    WHERE w.kind = 'paged_attention' GROUP BY ALL HAVING count(*) = 1
),
read AS (
    SELECT r.trace_id, r.event_id, class_turn, class_times, peak, l.tokens,
           d[1][2] * (d[1][3] + d[3][3]) AS head, d[1][2] * d[1][3] * element_bytes(t[1]) AS query_bytes,
           d[1][2] * d[3][3] * element_bytes(t[1]) AS result_bytes,
           d[2][2] * (d[2][3] + d[3][3]) * element_bytes(t[2]) AS key_bytes,
           [sum_in(step, '\(sq(\d+)sk'), sum_in(step, '\(sq\d+sk(\d+)'), sum_in(step, 'sqsq(\d+)'),
               sum_in(step, 'sqsk(\d+)')] AS sums,
           -- Of a call whose window is unknown, only each token's own key was counted.
           coalesce(flops > 2 * head * d[1][1] AND sums[1] = l.tokens, FALSE) AS is_whole
    FROM replayed AS r JOIN launch AS l USING (trace_id, launch_id)
    JOIN attended AS a
      ON l.known_trace_id = a.trace_id AND l.known_unit_id = a.unit_id AND r.place = a.place
    WHERE r.class = 'attention'
)
SELECT r.trace_id, r.event_id, 'other trace', w.is_matrix, w.peak, share * w.flops, share * w.moved,
       share * w.weight_bytes
FROM (SELECT r.*, l.known_trace_id, l.known_unit_id, least(1, l.tokens / l.known_tokens) AS share
    FROM replayed AS r JOIN launch AS l USING (trace_id, launch_id)) AS r
JOIN called AS c
  ON r.known_trace_id = c.trace_id AND r.known_unit_id = c.unit_id AND r.place = c.place
    AND r.name = c.name AND r.turn = c.turn AND r.times = c.times
JOIN work AS w ON c.trace_id = w.trace_id AND c.event_id = w.gpu_op_ids[1]
SEMI JOIN unworked_kernel AS u ON r.trace_id = u.trace_id AND r.event_id = u.event_id
WHERE r.class <> 'attention'
UNION ALL
SELECT trace_id, event_id, 'other trace', TRUE, peak,
       if(class_turn = 1, 2 * head * if(is_whole, sums[4] - (sums[3] - sums[1]) / 2, tokens), 0),
       if(class_turn = 1, tokens * query_bytes + keys * key_bytes, 0)
           + if(class_turn = class_times, tokens * result_bytes, 0),
       if(class_turn = 1, keys * key_bytes, 0)
FROM (SELECT *, if(is_whole, sums[2], tokens) AS keys FROM read)
SEMI JOIN unworked_kernel USING (trace_id, event_id)
WHERE class_turn IN (1, class_times)
