-- question: Which matrix products would tuning make faster: much generated work, or a library's slow choice?
-- title: Tune the matrix product
-- causes: math, memory-bandwidth, math-or-memory
-- when: class = 'gemm'
-- needs: Minutes of tuning for each shape; a cache of the results that runs share.
-- caveat: A library's product is assumed to reach the same share of its peak as another of its format in this
--     trace that is larger in no dimension: cut into pieces of that size, it would. A small one may run at a
--     higher clock. A generated product is assumed to reach 60 % of the nearer peak of the device or, if
--     shapes do not show how near it is, to take 15 % less time; the true figure may be none, or a third.
-- before:
--     y = x @ weight                                       # a library picks its kernel by rules
--     model = torch.compile(model)
-- after:
--     model = torch.compile(model, mode="max-autotune")    # libraries, CUTLASS and Triton, by shape
--     # AMD's libraries, without a compiler: PYTORCH_TUNABLEOP_ENABLED=1 times all their kernels
--     # for each shape, and keeps the results in tunableop_results*.csv.
--     # AMD's aiter: AITER_TUNE_GEMM=1 writes down shapes that its tuned list lacks, for its tuner.
--     # Your own Triton kernel: @triton.autotune over block sizes, stages and warps, keyed by its shapes
-- risks: Code tuned for one device or shape may be slow on another. Each new shape is tuned when it first
--     comes: bring a varying number of rows to a few sizes first.
-- check: tracekit query after.json roofline; tracekit diff before.json after.json
-- sources: https://docs.pytorch.org/docs/stable/cuda.tunable.html
--     https://rocm.blogs.amd.com/artificial-intelligence/pytorch-tunableop/README.html
--     https://docs.pytorch.org/docs/stable/generated/torch.compile.html
--     https://triton-lang.org/main/python-api/generated/triton.autotune.html
-- doubts: no_gpu_ops, absurd_duration
-- Generated ones: Inductor's templates, and plain names of functions, which libraries lack. Arithmetic limits
-- a library's: with few tokens, a product takes as long as reading its weights. Unaligned sizes are another
-- remedy's.
WITH worked AS (
    SELECT w.trace_id, unnest(gpu_op_ids) AS event_id,
           greatest(flops * 1e9 / peak_of(flop_per_s, peak, is_matrix),
               (read_bytes + written_bytes) * 1e9 / memory_bytes_per_s) / busy_ns AS reached
    FROM all_work AS w JOIN device_peaks AS p ON w.trace_id = p.trace_id AND w.device_id = p.device_id
    WHERE is_matrix AND is_asked(w.trace_id)
),
named AS (
    SELECT *, name_ns / sum(name_ns) OVER (PARTITION BY trace_id) AS part
    FROM (SELECT trace_id, name, class, sum(dur_ns) AS name_ns
        FROM gpu_ops WHERE kind = 'kernel' AND is_asked(trace_id) GROUP BY ALL)
),
kernel AS (
    SELECT g.trace_id, g.event_id, g.name, g.start_ns, g.dur_ns, part,
           regexp_matches(g.name, '^triton_tem_|^\w*(matmul|gemm_kernel)\w*$') AND NOT regexp_matches(g.name,
               '(?i)sgemm|hgemm|cublas|cutlass|cudnn|ampere|volta|turing|nvjet|sm\d\d|igemm') AS is_generated
    FROM (FROM named WHERE class = 'gemm') AS n JOIN gpu_ops AS g USING (trace_id, name)
    WHERE g.kind = 'kernel'
),
generated AS (
    SELECT k.trace_id, regexp_replace(name, '_\d[\dcde]*$', '') AS place,
           coalesce(format('{:.0f} % of its peak', 100 * median(reached) OVER same),
               duration_text(median(dur_ns) OVER same) || ' in the median launch') AS detail,
           'op' AS target, event_id, start_ns, dur_ns,
           coalesce(reached / thresholds().tuned_reach, thresholds().tuned_share) AS factor
    FROM kernel AS k LEFT JOIN worked USING (trace_id, event_id)
    WHERE is_generated AND part >= thresholds().dominant_share AND factor < 1
    WINDOW same AS (PARTITION BY k.trace_id, name)
),
product AS (
    SELECT w.*, flops * 1e9 / peak_of(flop_per_s, peak, TRUE) AS math_ns
    FROM products AS w JOIN device_peaks AS p ON w.trace_id = p.trace_id AND w.device_id = p.device_id
    WHERE math_ns > (read_bytes + written_bytes) * 1e9 / memory_bytes_per_s
),
-- The fastest call of a size: others may share the device with collectives.
size AS (
    SELECT trace_id, device_id, peak, batch, m, k, n, max(math_ns / busy_ns) AS reached,
           sum(math_ns) / sum(busy_ns) AS usual
    FROM product GROUP BY ALL
),
slow AS (
    SELECT s.*, max(o.usual) AS best
    FROM size AS s JOIN size AS o ON s.trace_id = o.trace_id AND s.device_id = o.device_id
        AND s.peak = o.peak AND o.batch <= s.batch AND o.m <= s.m AND o.k <= s.k AND o.n <= s.n
    GROUP BY ALL HAVING s.reached <= thresholds().tuned_share * best
),
library AS (
    SELECT p.trace_id, k.name AS place, 'op' AS target, k.event_id,
           k.start_ns, k.dur_ns, s.reached / best AS factor, k.dur_ns AS ns,
           format('{} by {}: {:.0f} % of its peak, a smaller one reaches {:.0f} %',
               a::VARCHAR, b::VARCHAR, 100 * s.reached, 100 * best) AS told
    FROM (SELECT *, unnest(gpu_op_ids) AS op_id FROM product WHERE k % unit = 0 AND n % unit = 0) AS p
    JOIN slow AS s USING (trace_id, device_id, peak, batch, m, k, n)
    JOIN kernel AS k ON p.trace_id = k.trace_id AND p.op_id = k.event_id
    WHERE NOT is_generated
),
tuned AS (FROM generated UNION ALL BY NAME FROM detailed('library'))
SELECT trace_id, place, detail, target, event_id, NULL AS pid, NULL AS tid, start_ns, dur_ns, factor
FROM tuned WHERE (trace_id, event_id) NOT IN (SELECT (trace_id, event_id) FROM decoded_ops)
