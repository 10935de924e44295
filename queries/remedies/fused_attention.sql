-- question: Which attention is written as products and softmax, although one fused kernel could do it all?
-- title: Use fused attention (scaled_dot_product_attention)
-- causes: memory-bandwidth, math, launch
-- when: work = 'softmax'
-- needs: Attention weights that are not used elsewhere, and a mask that the fused kernels take; for flash
--     attention fp16 or bf16.
-- caveat: Only the forward pass on the device is counted: the backward pass and the launches gain too.
-- blind: no_shapes, unknown_device
-- before:
--     scores = q @ k.transpose(-2, -1) * scale
--     weights = F.dropout(scores.softmax(dim=-1), p)
--     output = weights @ v
-- after:
--     output = F.scaled_dot_product_attention(q, k, v, dropout_p=p, scale=scale)
--
--     # Hugging Face: attn_implementation="sdpa"; nn.MultiheadAttention: need_weights=False
-- risks: Sums are taken in another order, so results differ in the last bits. With an arbitrary mask or in
--     fp32, PyTorch takes a slower fused kernel or separate products; torch.nn.attention.sdpa_kernel
--     forbids that.
-- check: tracekit query after.json top_kernels; tracekit diff before.json after.json
-- sources:
--     https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
--     https://arxiv.org/abs/2205.14135
-- column factor (fraction of the time taken): both products' FLOPs, or reading query, key and value and
--     writing the output, at the share of the roofs that the products reach now
-- doubts: no_gpu_ops, no_shapes, unknown_device, unlinked_gpu_ops, no_stacks
WITH op AS (
    SELECT *, 'op' AS target, dur_ns AS ns FROM attention_part WHERE NOT is_fallback AND is_asked(trace_id)
)
FROM changed_ops('op')
