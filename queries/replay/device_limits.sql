-- question: What limits each GPU op?
-- params trace, latency_percent
-- param short_ns (integer, default thresholds().launch_floor_ns): so is one of unknown work that is shorter
-- columns trace_id
-- column event_id (id): the GPU op; rows are in the order of device_work
-- column cause (text): communication, copy, math, memory-bandwidth, latency, or math-or-memory: not told
-- column known_by (text): what tells the cause: kind (communication and copies), roofline (the operator's
--     work, and the device's peaks), duration, class (elementwise work, normalizations, reductions and copies
--     are limited by memory), sibling (the same kernel on the same grid, for about as long, has a roofline),
--     tokens (the step's name), grid (it fills too little of the device); NULL: nothing does
-- doubts: no_gpu_ops, unlinked_gpu_ops, no_shapes, unknown_device
WITH bound AS (
    SELECT w.trace_id, unnest(gpu_op_ids) AS event_id,
           math_roof_ns(flops, p.flop_per_s, peak, is_matrix)::BIGINT AS math_ns,
           memory_roof_ns(read_bytes + written_bytes, p.memory_bytes_per_s)::BIGINT AS memory_ns,
           roof_bound(math_ns, memory_ns, busy_ns,
               coalesce(getvariable('latency_percent'), thresholds().latency_percent)) AS roof
    FROM all_work() AS w JOIN device_peaks AS p ON w.trace_id = p.trace_id AND w.device_id = p.device_id
    WHERE w.trace_id = coalesce(getvariable('trace'), w.trace_id)
),
op AS MATERIALIZED (
    SELECT op.trace_id, op.event_id, op.device_id, op.stream, op.start_ns, op.dur_ns, op.name, roof,
           -- The roof is that of the whole operator: a change of layout inside a convolution is not math.
           CASE WHEN op.activity <> 'compute' THEN 'kind'
                WHEN roof = 'math' AND NOT is_bound_by_bytes(class, n.traits) OR roof <> 'math'
                    THEN 'roofline'
                WHEN dur_ns < coalesce(getvariable('short_ns'), thresholds().launch_floor_ns) THEN 'duration'
                WHEN is_bound_by_bytes(class, n.traits) THEN 'class' END AS known_by,
           op.activity, op.class, coalesce(has(n.traits, 'latent_attention'), FALSE) AS is_latent
    FROM gpu_ops AS op LEFT JOIN gpu_op_name AS n ON op.kind = n.kind AND op.name = n.name
    LEFT JOIN bound AS b ON op.trace_id = b.trace_id AND op.event_id = b.event_id
    WHERE op.trace_id = coalesce(getvariable('trace'), op.trace_id)
),
-- With the roof of other launches of the kernel on the same grid, where they agree.
gridded AS (
    SELECT op.*, e.args->>'grid' AS grid, TRY_CAST(e.args->>'blocks per SM' AS DOUBLE) AS blocks_per_sm,
           min(op.dur_ns) FILTER (roof IS NOT NULL) OVER alike AS least_ns,
           max(op.dur_ns) FILTER (roof IS NOT NULL) OVER alike AS most_ns,
           CASE WHEN min(roof) OVER alike = max(roof) OVER alike AND grid IS NOT NULL
                   AND op.dur_ns * thresholds().sibling_ratio >= least_ns
                   AND op.dur_ns <= most_ns * thresholds().sibling_ratio
               THEN min(roof) OVER alike END AS sibling_roof
    FROM op SEMI JOIN (FROM op WHERE known_by IS NULL) AS unknown USING (trace_id, device_id, name)
    JOIN event_row AS e ON op.trace_id = e.trace_id AND op.event_id = e.event_id
    WINDOW alike AS (PARTITION BY op.trace_id, op.device_id, name, grid)
),
server_step AS (
    SELECT trace_id, pid, tid, start_ns, end_ns, prompt_tokens(name) AS prompt,
           prompt + generated_tokens(name) AS tokens
    FROM annotations WHERE side = 'host' AND has(traits, 'server_step')
),
found AS (
    SELECT g.trace_id, g.event_id, sibling_roof,
           CASE WHEN sibling_roof IS NOT NULL THEN 'sibling'
                -- With few tokens, matrix products take as long as reading the weights. Attention to one
                -- token of each request takes as long as reading its cache, unless many heads share that
                -- (multi-head latent attention).
                WHEN l.launch_start_ns < s.end_ns AND s.tokens <= thresholds().few_tokens_share
                    * coalesce(p.flop_per_s['bf16'], p.flop_per_s['fp16']) / p.memory_bytes_per_s
                    AND (g.class <> 'attention' OR s.prompt = 0 AND NOT g.is_latent) THEN 'tokens'
                WHEN 100 * blocks_per_sm
                    < coalesce(getvariable('latency_percent'), thresholds().latency_percent) THEN 'grid'
                END AS found_by
    FROM gridded AS g LEFT JOIN gpu_op_launch AS l ON g.trace_id = l.trace_id AND g.event_id = l.event_id
    LEFT JOIN device_peaks AS p ON g.trace_id = p.trace_id AND g.device_id = p.device_id
    ASOF LEFT JOIN server_step AS s
      ON l.trace_id = s.trace_id AND l.pid = s.pid AND l.tid = s.tid AND l.launch_start_ns >= s.start_ns
    WHERE known_by IS NULL
)
SELECT op.trace_id, op.event_id,
       CASE coalesce(known_by, found_by) WHEN 'kind' THEN op.activity::VARCHAR
           WHEN 'duration' THEN 'latency' WHEN 'grid' THEN 'latency'
           WHEN 'class' THEN 'memory-bandwidth' WHEN 'tokens' THEN 'memory-bandwidth'
           ELSE CASE coalesce(roof, sibling_roof) WHEN 'memory' THEN 'memory-bandwidth'
               ELSE coalesce(roof, sibling_roof, 'math-or-memory') END END AS cause,
       coalesce(known_by, found_by) AS known_by
FROM op LEFT JOIN found AS f ON op.trace_id = f.trace_id AND op.event_id = f.event_id
ORDER BY op.trace_id, op.device_id, op.stream, op.start_ns, op.event_id
