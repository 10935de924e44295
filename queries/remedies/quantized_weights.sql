-- question: Which products of 16-bit weights take as long as reading the weights, in steps that generate?
-- since: 0.1
-- title: Quantize the weights
-- causes: memory-bandwidth
-- when: has(traits, 'server_step')
-- effort: high
-- less_work: true
-- needs: A checkpoint with 8-bit weights, and kernels for them on this device; answers that stay good enough.
-- caveat: Weights of 8 bits are assumed to be read in half the time. With 4 bits it is down to a quarter;
--     kernels that convert them on the way gain less.
-- before:
--     vllm serve MODEL
-- after:
--     vllm serve MODEL --quantization fp8           # or a checkpoint with int8 or 4-bit weights
-- risks: Compare answers on the tasks that count. Large batches gain less: they compute more for each weight.
-- check: tracekit query after.json top_kernels; tracekit diff before.json after.json
-- sources: https://docs.vllm.ai/en/latest/features/quantization/index.html
--     https://arxiv.org/abs/2211.10438
-- doubts: no_gpu_ops, unlinked_gpu_ops, unknown_device
SELECT trace_id, NULL AS place, format('{} tokens a step', tokens) AS detail, 'op' AS target, event_id,
       NULL AS pid, NULL AS tid, start_ns, dur_ns,
       greatest(thresholds().half_share, least(1, thresholds().launch_floor_ns / nullif(dur_ns, 0)),
           least(1, coalesce(math_ns, 0) / dur_ns)) AS factor
FROM decoded_ops LEFT JOIN (SELECT trace_id, event_id, math_ns FROM op_limit) USING (trace_id, event_id)
WHERE is_product AND dur_ns > thresholds().launch_floor_ns
    AND NOT is_quantized
