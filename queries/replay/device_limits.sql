-- question: What limits each GPU op?
-- since: 0.1
-- params latency_percent
-- param short_ns (integer, default thresholds().launch_floor_ns): shorter ops of unknown work count as
--     latency
-- columns event_id
-- column cause (text): communication, copy, math, memory-bandwidth, latency, or math-or-memory (unknown)
-- column known_by (text): the source of the cause: kind (communication and copies), roofline (the operator's
--     work, and the device's peaks), duration, class (elementwise work, normalizations, reductions and copies
--     are limited by memory), sibling (the same kernel on the same grid, for about as long, has a roofline),
--     tokens (the step's name), tiles (a matrix product with this many rows and columns would do more
--     arithmetic than the device can if bytes took its time), grid (it fills too little of the device); NULL:
--     none
-- doubts: no_gpu_ops, unlinked_gpu_ops, no_shapes, unknown_device
WITH bound AS (
    SELECT trace_id, event_id, least(dur_ns, usual_ns) AS alone_ns, roof_bound(math_ns, memory_ns, alone_ns,
               coalesce(getvariable('latency_percent'), thresholds().latency_percent)) AS known_roof,
           100 * greatest(math_ns, memory_ns) < thresholds().near_roof_percent * alone_ns AS is_far,
           -- A lower bound of the work does not show that it is far from both roofs. Tiles bound a product's
           -- FLOPs less closely than its bytes.
           CASE WHEN is_exact OR NOT is_far AND (source <> 'layer' OR known_roof = 'math') THEN known_roof
               END AS any_roof,
           -- Most of its time is a disturbance's, and not that of too small a kernel.
           any_roof = 'latency' AND excess_ns > usual_ns AS is_disturbed
    FROM op_limit LEFT JOIN uneven_product USING (trace_id, event_id)
    -- Other launches on the same grid have to agree, and few tokens are few: see below. Bytes of a result or
    -- of a neighbor's tensor do not show how many FLOPs there are.
    WHERE is_asked(trace_id)
        AND source NOT IN ('same kernel', 'same place', 'tiles', 'other trace', 'outputs', 'neighbor')
),
op AS MATERIALIZED (
    SELECT op.trace_id, op.event_id, op.device_id, op.stream, op.start_ns, op.dur_ns, op.name,
           -- A product far below memory's roof may be limited by padded tiles' arithmetic, or by a softmax.
           CASE WHEN NOT (any_roof = 'memory' AND is_far AND op.class IN ('gemm', 'attention', 'convolution'))
               AND is_disturbed IS NOT TRUE THEN any_roof END AS roof, is_disturbed,
           -- For known shapes, math limits hardly any of these kernels' time.
           op.class IN ('normalization', 'reduction', 'elementwise', 'copy') OR has(n.traits, 'moves_bytes')
               OR op.class = 'other' AND has(n.traits, 'moves_bytes_if_other') AS moves_bytes,
           -- The roof is that of the whole operator: a change of layout inside a convolution is not math.
           CASE WHEN op.activity <> 'compute' THEN 'kind'
                WHEN roof = 'math' AND NOT moves_bytes OR roof <> 'math' THEN 'roofline'
                WHEN dur_ns < coalesce(getvariable('short_ns'), thresholds().launch_floor_ns) THEN 'duration'
                WHEN moves_bytes THEN 'class' END AS known_by,
           op.activity, op.class, grid, blocks_per_sm,
           coalesce(has(n.traits, 'latent_attention'), FALSE) AS is_latent, pid, tid, launch_start_ns
    FROM gpu_ops AS op LEFT JOIN slice_label AS n USING (label_id)
    LEFT JOIN bound AS b ON op.trace_id = b.trace_id AND op.event_id = b.event_id
    WHERE is_asked(op.trace_id)
),
-- With the roof of other launches of the kernel on the same grid, if they agree.
unknown AS (SELECT DISTINCT trace_id, device_id, name FROM op WHERE known_by IS NULL),
alike AS MATERIALIZED (
    SELECT trace_id, device_id, name, grid, min(roof) AS one_roof, max(roof) AS other_roof,
           min(dur_ns) FILTER (roof IS NOT NULL) AS least_ns, max(dur_ns) FILTER (roof IS NOT NULL) AS most_ns
    FROM op SEMI JOIN unknown USING (trace_id, device_id, name) GROUP BY ALL
),
-- Products of cuBLAS whose names contain their tiles and whose grids count them, with the fewest rows and
-- columns of the result: the last tile of each row may hold a single number, and it is unknown which side of
-- a tile lies along which side of the grid. If it moved bytes for all of its time, such a product might do
-- more arithmetic than the device can. Products on tensor cores count as fp16: in a format twice as wide,
-- numbers take twice the bytes and the peak is half.
product AS (
    SELECT *, (sizes[1] - 1) * tile + 1 AS rows, (sizes[2] - 1) * tile + 1 AS columns,
           sizes[3] * rows * columns AS results
    FROM (
        SELECT * EXCLUDE tile, TRY_CAST(grid AS DOUBLE[]) AS sizes,
               least(TRY_CAST(tile.rows AS DOUBLE), TRY_CAST(tile.columns AS DOUBLE)) AS tile,
               if(contains(name, '_sgemm'), 4, 2) AS number_bytes
        FROM (
            SELECT *, regexp_extract(name, '^(?:maxwell|volta|turing|ampere)_\w*gemm\w*?_(\d+)x(\d+)',
                       ['rows', 'columns']) AS tile
            FROM alike
        )
    )
),
gridded AS (
    SELECT o.*, rows, columns, results, number_bytes,
           CASE WHEN one_roof = other_roof AND o.grid IS NOT NULL
               AND o.dur_ns * thresholds().sibling_ratio >= least_ns
               AND o.dur_ns <= most_ns * thresholds().sibling_ratio THEN one_roof END AS sibling_roof
    FROM op AS o JOIN product AS t ON o.trace_id = t.trace_id AND o.device_id = t.device_id
        AND o.name = t.name AND o.grid IS NOT DISTINCT FROM t.grid
    WHERE known_by IS NULL AND is_disturbed IS NOT TRUE
),
kernel_limit AS (
    SELECT g.trace_id, g.event_id, sibling_roof,
           CASE WHEN sibling_roof IS NOT NULL THEN 'sibling'
                -- With few tokens, matrix products take as long as reading the weights. Attention to one
                -- token of each request takes as long as reading its cache, unless many heads share that
                -- (multi-head latent attention).
                WHEN g.launch_start_ns < s.end_ns AND prefill_tokens + decode_tokens
                    <= thresholds().few_tokens_share * coalesce(p.flop_per_s['bf16'], p.flop_per_s['fp16'])
                        / p.memory_bytes_per_s
                    AND (g.class <> 'attention' OR s.prefill_tokens = 0 AND NOT g.is_latent) THEN 'tokens'
                WHEN 100 * blocks_per_sm
                    < coalesce(getvariable('latency_percent'), thresholds().latency_percent) THEN 'grid'
                WHEN 2 * rows * columns / (rows + columns)
                        * (g.dur_ns * 1e-9 * p.memory_bytes_per_s / number_bytes - results)
                    > g.dur_ns * 1e-9 * if(number_bytes = 4, p.flop_per_s['fp32'],
                        coalesce(p.flop_per_s['fp16'], p.flop_per_s['bf16'])) THEN 'tiles'
                END AS found_by
    FROM gridded AS g LEFT JOIN device_peaks AS p ON g.trace_id = p.trace_id AND g.device_id = p.device_id
    ASOF LEFT JOIN server_step AS s
      ON g.trace_id = s.trace_id AND g.pid = s.pid AND g.tid = s.tid AND g.launch_start_ns >= s.start_ns
)
SELECT op.trace_id, op.event_id,
       CASE coalesce(known_by, found_by) WHEN 'kind' THEN replace(op.activity::VARCHAR, '_', '-')
           WHEN 'duration' THEN 'latency' WHEN 'grid' THEN 'latency' WHEN 'tiles' THEN 'math'
           WHEN 'class' THEN 'memory-bandwidth' WHEN 'tokens' THEN 'memory-bandwidth'
           ELSE CASE coalesce(roof, sibling_roof) WHEN 'memory' THEN 'memory-bandwidth'
               ELSE coalesce(roof, sibling_roof, 'math-or-memory') END END AS cause,
       coalesce(known_by, found_by) AS known_by
FROM op LEFT JOIN kernel_limit AS f ON op.trace_id = f.trace_id AND op.event_id = f.event_id
ORDER BY op.trace_id, op.device_id, op.stream, op.start_ns, op.event_id
