-- question: Where did scaled_dot_product_attention fall back to its math backend?
-- title: Let attention take a fused backend
-- causes: memory-bandwidth, math, launch
-- when: name = 'aten::_scaled_dot_product_attention_math'; work = 'softmax'
-- needs: A dtype, mask, dropout and head size that a fused backend takes.
-- caveat: Only the forward pass on the device is counted: the backward pass and the launches gain too.
-- blind: no_shapes, unknown_device
-- before:
--     # fp64, a mask that needs a gradient, heads of different sizes ...
--     output = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
-- after:
--     q, k, v = (each.to(torch.bfloat16) for each in (q, k, v))
--     with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]):   # or says why not
--         output = F.scaled_dot_product_attention(q, k, v, is_causal=True)
-- risks: Sums are taken in another order and fp16 or bf16 is less exact: compare outputs. A backend that is
--     the only one allowed raises an error if it cannot run.
-- check: tracekit query after.json top_cpu_ops; tracekit diff before.json after.json
-- sources:
--     https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
--     https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/transformers/cuda/sdp_utils.cpp
-- doubts: no_gpu_ops, no_shapes, unknown_device, unlinked_gpu_ops, no_stacks
WITH found AS (
    SELECT *, 'op' AS target, dur_ns AS ns, shapes_of(given_dims) AS d, texts_of(given_types) AS t
    FROM attention_part WHERE is_fallback AND is_asked(trace_id)
),
op AS (
    SELECT * REPLACE (coalesce(nullif(concat_ws(', ',
        CASE WHEN peak_name(t[1]) IN ('fp16', 'bf16') THEN NULL ELSE peak_name(t[1]) END,
        CASE WHEN len(d[4]) > 0 THEN 'a mask' END,
        CASE WHEN d[1][-1] <> d[3][-1] THEN 'heads of ' || d[1][-1] || ' and ' || d[3][-1] END,
        CASE WHEN d[1][2] <> d[2][2] THEN 'fewer heads of keys' END), ''), 'inputs do not tell why') AS told)
    FROM found
)
FROM changed_ops('op')
