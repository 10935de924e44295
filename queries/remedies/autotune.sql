-- question: Which generated matrix products take so much of the device's time that tuning them would pay?
-- title: Tune the generated matrix product
-- causes: math, memory-bandwidth, math-or-memory
-- when: class = 'gemm' AND regexp_matches(name, '^triton_tem_|matmul|gemm_kernel')
-- effort: low
-- needs: Minutes of tuning for each shape; a cache of the results that runs share.
-- caveat: If shapes show how near it is to the device's peaks, the tuned one is assumed to reach 60 % of the
--     nearer peak. Otherwise it is assumed to take 15 % less time; the true figure may be none, or a third.
-- before:
--     model = torch.compile(model)
-- after:
--     model = torch.compile(model, mode="max-autotune")    # tries cuBLAS, CUTLASS and Triton for each shape
--     # Your own Triton kernel: @triton.autotune over block sizes, stages and warps, keyed by its shapes
-- risks: Code tuned for one device or shape may be slow on another.
-- check: tracekit query after.json top_kernels; tracekit diff before.json after.json
-- sources: https://docs.pytorch.org/docs/stable/generated/torch.compile.html
--     https://triton-lang.org/main/python-api/generated/triton.autotune.html
-- column place (text): the kernel
-- column detail (text): how long it takes each time
-- doubts: no_gpu_ops, absurd_duration
-- Products that Triton compiled: Inductor's templates, and plain names of functions, which libraries lack.
WITH worked AS (
    SELECT w.trace_id, unnest(gpu_op_ids) AS event_id,
           greatest(flops * 1e9 / peak_of(flop_per_s, peak, is_matrix),
               (read_bytes + written_bytes) * 1e9 / memory_bytes_per_s) / busy_ns AS reached
    FROM all_work() AS w JOIN device_peaks AS p ON w.trace_id = p.trace_id AND w.device_id = p.device_id
    WHERE is_matrix AND is_asked(w.trace_id)
),
kernel AS (
    SELECT trace_id, event_id, name, start_ns, dur_ns, class,
           sum(dur_ns) OVER (PARTITION BY trace_id, name) AS kernel_ns,
           sum(dur_ns) OVER (PARTITION BY trace_id) AS all_ns
    FROM gpu_ops WHERE kind = 'kernel' AND is_asked(trace_id)
)
SELECT k.trace_id, regexp_replace(name, '_\d[\dcde]*$', '') AS place,
       coalesce(format('{:.0f} % of its peak', 100 * median(reached) OVER same),
           duration_text(median(dur_ns) OVER same) || ' in the median launch') AS detail,
       'op' AS target, event_id, NULL AS pid, NULL AS tid, start_ns, dur_ns,
       coalesce(reached / thresholds().tuned_reach, thresholds().tuned_share) AS factor
FROM kernel AS k LEFT JOIN worked USING (trace_id, event_id)
WHERE class = 'gemm' AND kernel_ns >= thresholds().dominant_share * all_ns
    AND regexp_matches(name, '^triton_tem_|^\w*(matmul|gemm_kernel)\w*$')
    AND NOT regexp_matches(name,
        '(?i)sgemm|hgemm|cublas|cutlass|cudnn|ampere|volta|turing|nvjet|sm\d\d|igemm')
    AND factor < 1
    -- With few tokens, a product takes as long as reading its weights.
    AND (k.trace_id, event_id) NOT IN (SELECT (trace_id, event_id) FROM decoded_ops())
WINDOW same AS (PARTITION BY k.trace_id, name)
