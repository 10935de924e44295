-- fact: A product in a graph's replay, with the same one in a unit of another trace of the model.
-- needs: unit, server_step
-- of: unworked_kernel, operator_work
-- when: call = 'launch_graph'
-- scope: all
-- A replay that runs as many products as a unit of another trace, whose shapes are known, multiplies by the
-- same weights in the same order. Of several units the one of fewest tokens counts.
CREATE TABLE _scratch.matched_product AS
WITH known AS (
    SELECT u.trace_id, u.unit_id, max(p.m) AS tokens,
           list({'outputs': p.n, 'sums': p.k, 'peak': peak, 'bytes': weight_bytes}
               ORDER BY first_ns, op_id) AS weights,
           list(op_id ORDER BY first_ns, op_id) AS op_ids
    FROM (SELECT *, gpu_op_ids[1] AS op_id FROM products WHERE batch = 1) AS p
    JOIN unit_ops AS u ON p.trace_id = u.trace_id AND op_id = u.event_id
    WHERE u.level = 1 AND (SELECT count(*) > 1 FROM trace)
    GROUP BY ALL HAVING len(weights) >= thresholds().same_products
),
replay AS (
    SELECT trace_id, launch_id, min(launch_start_ns) AS at_ns, any_value(pid) AS pid, any_value(tid) AS tid,
           list(event_id ORDER BY start_ns, event_id) AS op_ids
    FROM gpu_ops WHERE is_graph AND class = 'gemm' GROUP BY trace_id, launch_id
),
-- Traces whose units disagree about the weights tell nothing.
matched AS (
    SELECT r.trace_id, launch_id, any_value(at_ns) AS at_ns, any_value(pid) AS pid, any_value(tid) AS tid,
           any_value(r.op_ids) AS op_ids, any_value(weights) AS weights,
           min({'tokens': tokens, 'trace_id': k.trace_id, 'unit_id': unit_id, 'op_ids': k.op_ids}) AS known
    FROM replay AS r JOIN known AS k ON len(r.op_ids) = len(weights) AND r.trace_id <> k.trace_id
    GROUP BY r.trace_id, launch_id HAVING count(DISTINCT weights) = 1
),
step AS (
    SELECT m.*, if(at_ns < s.end_ns, prefill_tokens + decode_tokens, NULL) AS known_tokens,
           if(at_ns < s.end_ns, s.name, NULL) AS step
    FROM matched AS m ASOF LEFT JOIN server_step AS s
      ON m.trace_id = s.trace_id AND m.pid = s.pid AND m.tid = s.tid AND m.at_ns >= s.start_ns
)
SELECT trace_id, launch_id, coalesce(known_tokens, 1) AS tokens, step, known.trace_id AS known_trace_id,
       known.unit_id AS known_unit_id, known.tokens AS known_tokens, generate_subscripts(op_ids, 1) AS place,
       unnest(op_ids) AS event_id, unnest(known.op_ids) AS known_id, unnest(weights) AS w
FROM step
