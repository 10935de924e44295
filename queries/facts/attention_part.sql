-- fact: A GPU op of attention that is written as products and a softmax.
-- needs: device_peaks, operator_time, replayed_work
-- when: work = 'softmax'
-- scope: all
-- On one stream: a batched product, a softmax of its result, a batched product with the softmax's result.
-- Parts are identified by their first GPU op, `op_id`, since graph replays repeat one captured operator.
CREATE TABLE attention_part (
    trace_id INTEGER, event_id BIGINT, -- the softmax
    op_id       BIGINT,  -- the first GPU op of the softmax
    told        VARCHAR, -- the shape of the scores
    gpu_op_id   BIGINT,
    factor      DOUBLE,  -- the fraction of it that one fused kernel would leave
    start_ns BIGINT, dur_ns BIGINT,
    is_fallback BOOLEAN, -- PyTorch's own products, as it uses none of its fused kernels
    given_dims JSON, given_types JSON
);
WITH work AS MATERIALIZED (
    SELECT *, gpu_op_ids[1] AS op_id, shapes_of(dims) AS d FROM all_work
    WHERE kind IN ('bmm', 'baddbmm', 'softmax', 'elementwise', 'comparison', 'copy')
        AND name NOT IN ('aten::log_softmax', 'aten::_log_softmax')
),
product AS MATERIALIZED (
    SELECT trace_id, op_id, w.device_id, stream, first_ns, busy_ns,
           CASE kind WHEN 'bmm' THEN d[1] ELSE d[2] END AS a,
           CASE kind WHEN 'bmm' THEN d[2] ELSE d[3] END AS b,
           a[1] * a[2] * b[3] AS made, elements(a) AS taken, elements(b) AS other,
           (read_bytes + written_bytes) / (elements(a) + elements(b) + made) AS bytes_each, flops, peak,
           greatest(flops * 1e9 / peak_of(flop_per_s, peak, TRUE),
               (read_bytes + written_bytes) * 1e9 / memory_bytes_per_s) AS roof_ns,
           flop_per_s, memory_bytes_per_s
    FROM work AS w JOIN device_peaks USING (trace_id, device_id) WHERE is_matrix
),
-- What _safe_softmax itself launches corrects the result of the softmax that it calls.
softmax AS (
    SELECT trace_id, event_id, op_id, device_id, stream, first_ns, d[1] AS shape, elements(d[1]) AS scores
    FROM work WHERE kind = 'softmax' AND len(d[1]) >= 2 AND name <> 'aten::_safe_softmax'
),
triple AS (
    SELECT s.trace_id, s.event_id, s.op_id, s.device_id, s.stream, s.shape, s.scores, q.first_ns AS from_ns,
           v.first_ns AS to_ns, q.flops + v.flops AS flops, q.peak, q.flop_per_s,
           least(1, (q.roof_ns + v.roof_ns) / (q.busy_ns + v.busy_ns)) AS reached,
           (q.bytes_each * (q.taken + q.other) + v.bytes_each * (v.other + v.made)) * 1e9
               / q.memory_bytes_per_s AS memory_ns,
           q.op_id AS q_id, v.op_id AS v_id
    FROM softmax AS s
    ASOF JOIN product AS q ON s.trace_id = q.trace_id AND s.device_id = q.device_id AND s.stream = q.stream
        AND s.scores = q.made AND s.shape[-1] = q.b[3] AND s.first_ns > q.first_ns
    ASOF JOIN product AS v ON s.trace_id = v.trace_id AND s.device_id = v.device_id AND s.stream = v.stream
        AND s.scores = v.taken AND s.shape[-1] = v.a[3] AND s.first_ns < v.first_ns
    -- Each product belongs to the softmax next to it.
    QUALIFY row_number() OVER (PARTITION BY s.trace_id, q.op_id ORDER BY s.first_ns) = 1
        AND row_number() OVER (PARTITION BY s.trace_id, v.op_id ORDER BY s.first_ns DESC) = 1
),
-- PyTorch's own products, if it does not use its fused kernels.
fallback AS (
    SELECT f.trace_id, f.pid, f.tid, f.start_ns, f.end_ns, c.input_dims AS dims, c.input_types AS types
    FROM cpu_ops AS f JOIN thread_slice AS h USING (trace_id, event_id)
    LEFT JOIN cpu_ops AS c ON h.trace_id = c.trace_id AND h.parent_id = c.event_id
        AND c.name = 'aten::scaled_dot_product_attention'
    WHERE f.name = 'aten::_scaled_dot_product_attention_math'
),
asked AS (
    SELECT t.*, f.pid, f.tid, f.start_ns, f.end_ns, f.dims, f.types,
           flops * 1e9 / greatest(peak_of(flop_per_s, peak, TRUE),
               peak_of(flop_per_s, peak_name(texts_of(f.types)[1]), TRUE)) AS math_ns
    FROM triple AS t LEFT JOIN graph_site AS c ON t.trace_id = c.trace_id AND t.op_id = c.event_id
    JOIN cpu_ops AS s ON coalesce(c.capture_trace_id, t.trace_id) = s.trace_id
        AND coalesce(c.cpu_op_id, t.event_id) = s.event_id
    LEFT JOIN fallback AS f ON s.trace_id = f.trace_id AND s.pid = f.pid AND s.tid = f.tid
        AND s.start_ns >= f.start_ns AND s.start_ns < f.end_ns
),
part AS (
    SELECT t.trace_id, t.op_id, unnest(w.gpu_op_ids) AS gpu_op_id
    FROM triple AS t JOIN work AS w ON t.trace_id = w.trace_id AND t.device_id = w.device_id
        AND t.stream = w.stream AND w.first_ns BETWEEN from_ns AND to_ns
    WHERE w.op_id IN (q_id, v_id)
        OR (NOT is_matrix AND list_contains(list_transform(d, lambda each: elements(each)), scores))
    UNION
    -- A fallback also casts, scales and masks.
    SELECT a.trace_id, a.op_id, g.event_id
    FROM asked AS a JOIN gpu_ops AS g ON a.trace_id = g.trace_id AND a.pid = g.pid AND a.tid = g.tid
        AND g.launch_start_ns >= a.start_ns AND g.launch_start_ns < a.end_ns
)
SELECT a.trace_id, a.event_id, a.op_id, 'scores ' || shape::VARCHAR, gpu_op_id,
       greatest(math_ns, memory_ns) / reached
           / sum(g.dur_ns) OVER (PARTITION BY a.trace_id, a.op_id) AS factor,
       g.start_ns, g.dur_ns, a.start_ns IS NOT NULL, a.dims, a.types
FROM asked AS a JOIN part AS p ON a.trace_id = p.trace_id AND a.op_id = p.op_id
JOIN gpu_ops AS g ON p.trace_id = g.trace_id AND p.gpu_op_id = g.event_id
QUALIFY factor < 1
