-- question: Which matrix products would tuning make faster: much generated work, or a library's slow choice?
-- since: 0.1
-- title: Tune the matrix product
-- causes: math, memory-bandwidth, math-or-memory
-- frameworks: PyTorch
-- when: class = 'gemm'
-- needs: Minutes of tuning for each shape; a cache of the results that runs share.
-- caveat: A library's product is assumed to reach the same share of its peak as another of its format in this
--     trace that is larger in no dimension: cut into pieces of that size, it would. A small one may run at a
--     higher clock. One that memory limits is assumed to reach the bandwidth of other work. A generated
--     product is assumed to reach 60 % of the nearer peak of the device or, if shapes do not show how near it
--     is, to take 15 % less time; the true figure may be none, or a third.
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
-- Generated ones: Inductor's templates, and plain names of functions, which libraries lack. A library's pads
-- a short side to a tile. Unaligned sizes are another remedy's, and so are weights of 16 bits that are read
-- for few tokens.
WITH worked AS (
    SELECT trace_id, event_id, greatest(math_ns, memory_ns) / nullif(dur_ns, 0) AS reached
    FROM op_limit WHERE is_matrix AND is_exact AND is_asked(trace_id)
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
           coalesce(format('{:.0f} % of its peak, {:.0f} % is assumed', 100 * median(reached) OVER same,
                   100 * thresholds().tuned_reach),
               format('{} each, {:.0f} % less is assumed', duration_text(median(dur_ns) OVER same),
                   100 * (1 - thresholds().tuned_share))) AS detail,
           'op' AS target, event_id, start_ns, dur_ns,
           coalesce(reached / thresholds().tuned_reach, thresholds().tuned_share) AS factor
    FROM kernel AS k LEFT JOIN worked USING (trace_id, event_id)
    WHERE is_generated AND part >= thresholds().dominant_share AND factor < 1
    WINDOW same AS (PARTITION BY k.trace_id, name)
),
limited AS (
    SELECT w.*, flops * 1e9 / peak_of(flop_per_s, peak, TRUE) AS math_ns, read_bytes + written_bytes AS bytes,
           bytes * 1e9 / memory_bytes_per_s AS memory_ns
    FROM products AS w JOIN device_peaks AS p ON w.trace_id = p.trace_id AND w.device_id = p.device_id
    WHERE peak NOT IN ('tf32', 'bf16', 'fp16') OR k % unit = 0 AND n % unit = 0
),
product AS (FROM limited WHERE math_ns > memory_ns),
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
-- Work of about as many bytes shows what memory gives.
starved AS (
    SELECT p.trace_id, p.event_id, memory_ns / busy_ns AS reached, max(r.reached) AS best
    FROM limited AS p JOIN memory_rates AS r ON p.trace_id = r.trace_id AND p.device_id = r.device_id
        AND r.bytes <= p.bytes AND r.bytes * thresholds().near_size >= p.bytes
        AND r.reached >= thresholds().half_share
    WHERE math_ns <= thresholds().half_share * memory_ns
    GROUP BY ALL HAVING memory_ns / busy_ns <= thresholds().half_share * best
),
chosen AS (
    SELECT p.trace_id, gpu_op_ids, a, b, s.reached, best, 'peak, a smaller one reaches' AS than
    FROM product AS p JOIN slow AS s USING (trace_id, device_id, peak, batch, m, k, n)
    UNION ALL
    SELECT p.trace_id, gpu_op_ids, a, b, s.reached, best, 'bandwidth, other work reaches'
    FROM limited AS p JOIN starved AS s USING (trace_id, event_id)
),
library AS (
    SELECT p.trace_id, k.name AS place, 'op' AS target, k.event_id,
           k.start_ns, k.dur_ns, reached / best AS factor, k.dur_ns AS ns,
           format('{} by {}: {:.0f} % of its {} {:.0f} %',
               a::VARCHAR, b::VARCHAR, 100 * reached, than, 100 * best) AS told
    FROM (SELECT *, unnest(gpu_op_ids) AS op_id FROM chosen) AS p
    JOIN kernel AS k ON p.trace_id = k.trace_id AND p.op_id = k.event_id
    WHERE NOT is_generated
),
tuned AS (FROM generated UNION ALL BY NAME FROM detailed('library'))
SELECT trace_id, place, detail, target, event_id, NULL AS pid, NULL AS tid, start_ns, dur_ns, factor
FROM tuned WHERE (trace_id, event_id) NOT IN (
        SELECT (trace_id, event_id) FROM decoded_ops WHERE NOT is_quantized)
    AND (trace_id, event_id) NOT IN (
        SELECT (trace_id, event_id) FROM uneven_product WHERE excess_ns > usual_ns)
