-- question: Which products of an inference in 16 bits does math limit, on a device that is faster in 8?
-- since: 0.1
-- title: Multiply in fp8
-- causes: math
-- frameworks: PyTorch
-- unless: name = 'mode' AND value = 'training'
-- when: class = 'gemm' AND format IN ('bf16', 'fp16')
-- effort: high
-- less_work: true
-- needs: A checkpoint in fp8, or one that is quantized on loading, and answers that stay good enough.
-- caveat: Products are assumed to need 62 % of their time: activations are quantized on the way. Products of
--     unknown shape could wait for memory instead, and gain as much by reading half of the bytes.
-- blind: unknown_device
-- before:
--     model = Model.from_pretrained(name, dtype=torch.bfloat16).to("cuda")
-- after:
--     quantize_(model, Float8DynamicActivationFloat8WeightConfig())     # of torchao
--     # or, for a server: vllm serve MODEL --quantization fp8
-- risks: Compare answers on the tasks that count. Keep the first and last layers in 16 bits if they suffer.
-- check: tracekit query after.json top_kernels; tracekit diff before.json after.json
-- sources: https://docs.vllm.ai/en/latest/features/quantization/fp8.html
--     https://arxiv.org/abs/2209.05433
-- doubts: no_gpu_ops, no_shapes, unknown_device, unlinked_gpu_ops, no_stacks
-- In steps that generate, products of few tokens read weights: quantized_weights is for them.
WITH device AS (
    SELECT trace_id, device_id FROM device_peaks
    WHERE flop_per_s['fp8'] >= thresholds().fp8_faster * coalesce(flop_per_s['bf16'], flop_per_s['fp16'])
),
product AS MATERIALIZED (
    SELECT g.trace_id, g.event_id AS gpu_op_id, g.launch_id AS event_id, g.start_ns, g.dur_ns, l.math_ns,
           l.memory_ns, n.format IN ('bf16', 'fp16') AS is_half,
           n.format || ', mostly ' || regexp_extract(g.name, '^(void )?([^<(]+)', 2) AS told
    FROM gpu_ops AS g JOIN slice_label AS n USING (label_id) SEMI JOIN device USING (trace_id, device_id)
    LEFT JOIN op_limit AS l ON g.trace_id = l.trace_id AND g.event_id = l.event_id
    WHERE is_asked(g.trace_id) AND g.class = 'gemm' AND g.kind = 'kernel'
),
net AS (
    SELECT trace_id FROM product GROUP BY trace_id
    HAVING sum_where(dur_ns, is_half) > thresholds().captured_majority * sum(dur_ns)
),
kernel AS (
    SELECT trace_id, event_id, gpu_op_id, 'op' AS target, start_ns, dur_ns, dur_ns AS ns, told,
           greatest(thresholds().fp8_share, thresholds().launch_floor_ns / dur_ns) AS factor
    FROM product SEMI JOIN net USING (trace_id)
    WHERE is_half AND coalesce(math_ns >= memory_ns, TRUE) AND factor < 1
        AND (trace_id, gpu_op_id) NOT IN (SELECT (trace_id, event_id) FROM decoded_ops)
)
FROM changed_ops('kernel')
