-- fact: The least work of a product in a graph's replay, by another trace of the same model.
-- into: kernel_bound
-- needs: unit, server_step
-- of: unworked_kernel, operator_work
-- when: call = 'launch_graph'
-- scope: all
-- A replay that runs as many products as a unit of another trace, whose shapes are known, multiplies by the
-- same weights in the same order. Its tokens are those of the server's step, or at least one.
WITH known AS (
    SELECT u.trace_id, u.unit_id, list({'outputs': p.n, 'sums': p.k, 'peak': peak, 'bytes': weight_bytes}
               ORDER BY first_ns) AS weights
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
           any_value(op_ids) AS op_ids, any_value(weights) AS weights
    FROM replay AS r JOIN known AS k ON len(op_ids) = len(weights) AND r.trace_id <> k.trace_id
    GROUP BY r.trace_id, launch_id HAVING count(DISTINCT weights) = 1
),
step AS (
    SELECT m.*, if(at_ns < s.end_ns, prefill_tokens + decode_tokens, NULL) AS known_tokens
    FROM matched AS m ASOF LEFT JOIN server_step AS s
      ON m.trace_id = s.trace_id AND m.pid = s.pid AND m.tid = s.tid AND m.at_ns >= s.start_ns
)
SELECT trace_id, event_id, 'other trace', TRUE, w.peak, 2 * tokens * w.outputs * w.sums,
       w.bytes * (1 + tokens / w.outputs + tokens / w.sums), w.bytes
FROM (SELECT trace_id, coalesce(known_tokens, 1) AS tokens, unnest(op_ids) AS event_id, unnest(weights) AS w
    FROM step)
SEMI JOIN unworked_kernel USING (trace_id, event_id)
