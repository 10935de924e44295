-- question: Which products and convolutions of fp32 run without tensor cores on a device that has them?
-- since: 0.1
-- title: Run fp32 products on tensor cores
-- causes: math
-- frameworks: PyTorch
-- applied_as: tf32
-- when: has(traits, 'plain_fp32')
-- less_work: true
-- needs: Results that may be less precise: TF32 and bf16 keep fp32's range with 10 and 7 bits of mantissa;
--     fp16 also needs its gradients scaled.
-- caveat: Products are assumed to reach the same share of the faster peak as of the slower one; small ones
--     reach less. Without recorded shapes or known peaks, they are assumed to need half of their time.
-- before:
--     loss = model(batch).sum()
--     loss.backward()
-- after:
--     torch.set_float32_matmul_precision("high")        # products in TF32
--     torch.backends.cudnn.allow_tf32 = True            # convolutions (the default)
--
--     # Or, where TF32 is missing or not faster than fp32:
--     with torch.autocast("cuda", dtype=torch.bfloat16):
--         loss = model(batch).sum()
--     loss.backward()
-- risks: Compare losses over some hundred steps. Leave sensitive parts (solvers, statistics, long sums) in
--     fp32. V100 and T4 have fp16 only: use torch.amp.GradScaler with it.
-- check: tracekit query after.json roofline; tracekit diff before.json after.json
-- sources:
--     https://docs.pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices
--     https://docs.pytorch.org/docs/stable/generated/torch.set_float32_matmul_precision.html
--     https://docs.pytorch.org/tutorials/recipes/recipes/amp_recipe.html
--     https://arxiv.org/abs/1710.03740
-- param latency_percent (integer, default thresholds().latency_percent): a product that reaches less of its
--     roof is left out: it would gain little
-- column factor (fraction of the time taken): at least the time to read its inputs and write its output
-- doubts: no_gpu_ops, no_shapes, unknown_device, unlinked_gpu_ops, no_stacks
-- The faster format is TF32, or bf16, or fp16 where the device has no other that is faster than fp32.
-- Kernels are known by name: cuBLAS and cuDNN (sgemm, scudnn, f32f32_f32f32, ffma, simt), rocBLAS (SB).
WITH work AS MATERIALIZED (
    FROM all_work WHERE is_matrix AND peak IN ('fp32', 'tf32') AND is_asked(trace_id)
),
-- If some products run in TF32, it is allowed already. Convolutions have their own switch.
allowed AS (
    SELECT DISTINCT trace_id, device_id, contains(kind, 'convolution') AS is_convolution
    FROM work WHERE peak = 'tf32'
),
-- NVIDIA's devices of compute capability 8 and later have TF32, whether their peaks are known or not.
faster AS (
    SELECT p.*, flop_per_s IS NULL AS is_unknown,
           coalesce(flop_per_s['tf32'] > peak_of(flop_per_s, 'fp32', TRUE),
               regexp_matches(d.name, '(?i)nvidia|geforce|tesla|quadro|\brtx\b')
                   AND TRY_CAST(split_part(compute_capability, '.', 1) AS INTEGER)
                       >= thresholds().tf32_capability, FALSE) AS has_tf32,
           CASE WHEN has_tf32 THEN 'tf32' WHEN flop_per_s['bf16'] IS NOT NULL THEN 'bf16' ELSE 'fp16' END
               AS format
    FROM device_peaks AS p LEFT JOIN device AS d USING (trace_id, device_id)
),
held AS (
    SELECT w.trace_id, w.event_id, w.dims, w.kind, w.busy_ns, unnest(w.gpu_op_ids) AS gpu_op_id, format,
           flops * 1e9 / peak_of(flop_per_s, 'fp32', TRUE) AS math_ns,
           flops * 1e9 / peak_of(flop_per_s, format, TRUE) AS fast_ns,
           (read_bytes + written_bytes) * 1e9 / memory_bytes_per_s AS memory_ns,
           roof_bound(math_ns, memory_ns, busy_ns,
               coalesce(getvariable('latency_percent'), thresholds().latency_percent)) AS bound,
           greatest(memory_ns, fast_ns / (math_ns / busy_ns)) / busy_ns AS factor
    FROM work AS w JOIN faster AS f ON w.trace_id = f.trace_id AND w.device_id = f.device_id
    WHERE peak = 'fp32' AND (w.trace_id, w.device_id, contains(kind, 'convolution')) NOT IN (FROM allowed)
),
-- Matrix products whose shapes are unknown, in graphs or in traces without shapes; and all of a device whose
-- peaks are unknown.
unshaped AS (
    SELECT g.trace_id, g.launch_id AS event_id, g.event_id AS gpu_op_id, 'op' AS target, g.start_ns, g.dur_ns,
           g.dur_ns AS ns, format || ', mostly ' || regexp_extract(g.name, '^(void )?([^<(]+)', 2) AS told,
           greatest(thresholds().half_share, thresholds().launch_floor_ns / g.dur_ns) AS factor
    FROM gpu_ops AS g JOIN faster AS f ON g.trace_id = f.trace_id AND g.device_id = f.device_id
    WHERE g.class IN ('gemm', 'convolution') AND is_asked(g.trace_id)
        AND g.name IN (SELECT name FROM gpu_op_name WHERE has(traits, 'plain_fp32'))
        AND if(is_unknown, has_tf32, f.flop_per_s[format] > peak_of(f.flop_per_s, 'fp32', TRUE)
            AND (g.trace_id, g.event_id) NOT IN (SELECT (trace_id, unnest(gpu_op_ids)) FROM all_work
                WHERE is_matrix))
        AND (g.trace_id, g.class) NOT IN (SELECT (trace_id, class) FROM gpu_ops WHERE contains(name, 'tf32'))
),
shaped AS (
    SELECT h.*, 'op' AS target, g.start_ns, g.dur_ns, g.dur_ns AS ns,
           -- The first input of addmm and baddbmm is what the product is added to.
           CASE WHEN h.kind IN ('addmm', 'baddbmm') THEN shapes_of(dims)[2:3]
               ELSE list_filter(shapes_of(dims), lambda each: len(each) > 1)[:2] END AS factors,
           format || ', mostly ' || array_to_string(factors::VARCHAR[], ' by ') AS told
    FROM held AS h JOIN gpu_ops AS g ON h.trace_id = g.trace_id AND h.gpu_op_id = g.event_id
    WHERE bound = 'math'
        AND g.name IN (SELECT name FROM gpu_op_name WHERE has(traits, 'plain_fp32'))
),
kernel AS (
    SELECT trace_id, event_id, gpu_op_id, target, start_ns, dur_ns, ns, told, factor
    FROM (FROM shaped UNION ALL BY NAME FROM unshaped) WHERE factor < 1
)
FROM changed_ops('kernel')
