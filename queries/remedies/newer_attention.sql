-- question: Which attention runs FlashAttention 2 on a device for which newer kernels are faster?
-- since: 0.1
-- title: Use FlashAttention-3 or cuDNN's attention
-- causes: math, math-or-memory
-- frameworks: PyTorch
-- when: backend = 'FlashAttention 2' AND NOT contains(name, 'splitkv');
--     (SELECT count(*) > 0 FROM device WHERE regexp_matches(compute_capability, '^(9|1\d)\.'))
-- needs: A Hopper (FlashAttention-3) or a newer device (cuDNN), and heads, masks and a dtype that its kernels
--     take.
-- caveat: On an H100, FlashAttention-3 is 1.5 to 2 times as fast as FlashAttention 2 for long sequences, less
--     for short ones: two thirds of the time are assumed.
-- before:
--     output = F.scaled_dot_product_attention(q, k, v, is_causal=True)       # FlashAttention 2
-- after:
--     with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION], set_priority=True):
--         output = F.scaled_dot_product_attention(q, k, v, is_causal=True)
--     # Hugging Face: attn_implementation="flash_attention_3"
-- risks: Sums are taken in another order: compare outputs. cuDNN makes a plan for each new shape.
-- check: tracekit query after.json top_kernels; tracekit diff before.json after.json
-- sources: https://arxiv.org/abs/2407.08608
--     https://docs.pytorch.org/docs/stable/generated/torch.nn.attention.sdpa_kernel.html
-- doubts: no_gpu_ops, unlinked_gpu_ops, no_stacks
-- Decoding (its kernels split the keys) reads the cache, which is no faster. Kernels shorter than a launch do
-- not gain.
WITH kernel AS (
    SELECT g.trace_id, g.launch_id AS event_id, g.event_id AS gpu_op_id, 'op' AS target, g.start_ns, g.dur_ns,
           g.dur_ns AS ns, 'FlashAttention 2 on ' || d.name AS told,
           greatest(thresholds().newer_attention, thresholds().launch_floor_ns / g.dur_ns,
               coalesce(l.least_ns / g.dur_ns, 0)) AS factor
    FROM gpu_ops AS g JOIN device AS d ON g.trace_id = d.trace_id AND g.device_id = d.device_id
    LEFT JOIN op_limit AS l ON g.trace_id = l.trace_id AND g.event_id = l.event_id
    WHERE is_asked(g.trace_id) AND factor < 1
        AND regexp_matches(d.compute_capability, '^(9|1\d)\.')
        AND g.label_id IN (SELECT label_id FROM slice_label
            WHERE backend = 'FlashAttention 2' AND NOT contains(name, 'splitkv'))
)
FROM changed_ops('kernel')
