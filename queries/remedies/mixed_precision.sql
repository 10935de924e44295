-- question: Which kernels of an inference in fp32 would move half of their bytes in a format of 16 bits?
-- since: 0.1
-- title: Run the model in bf16
-- titled: fp16: Run the model in fp16
-- causes: math, memory-bandwidth
-- frameworks: PyTorch
-- unless: name = 'mode' AND value = 'training'
-- when: class IN ('gemm', 'convolution', 'attention') AND format IN ('fp32', 'tf32')
-- less_work: true
-- needs: Results that may be less precise: bf16 keeps fp32's range with 7 bits of mantissa, fp16 has 10 bits
--     and a smaller range.
-- caveat: Kernels are assumed to take half of their time, and products of known sizes to reach the same share
--     of the faster peak as of the slower one.
-- blind: unknown_device
-- before:
--     model = Model.from_pretrained(name).to("cuda")                  # fp32 by default
-- after:
--     model = Model.from_pretrained(name, dtype=torch.bfloat16).to("cuda")
--     # or, without other weights: with torch.autocast("cuda", dtype=torch.bfloat16):
-- risks: Compare the outputs of some hundred inputs. Keep in fp32 what is sensitive, such as the last layer's
--     scores, coordinates and long sums. V100 and T4 have fp16 only.
-- check: tracekit query after.json roofline; tracekit diff before.json after.json
-- sources: https://docs.pytorch.org/docs/stable/amp.html
--     https://arxiv.org/abs/1905.12322
-- column factor (fraction of the time taken): half, or what a product would need
-- doubts: no_gpu_ops, no_shapes, unknown_device, unlinked_gpu_ops, no_stacks
-- A net is one of fp32 if most of its products are: mixed precision keeps norms and sums in fp32. Training
-- keeps its weights in fp32, too: the remedy tensor_cores is for it.
WITH format AS (
    SELECT *, if(flop_per_s['bf16'] IS NULL, 'fp16', 'bf16') AS format, flop_per_s[format] AS fast
    FROM device_peaks WHERE fast > peak_of(flop_per_s, 'fp32', TRUE)
),
named AS (
    SELECT label_id, class IN ('gemm', 'convolution', 'attention') AS is_product,
           format IN ('fp32', 'tf32') AS is_float
    FROM slice_label WHERE kind = 'kernel'
),
worked AS (
    SELECT w.trace_id, unnest(gpu_op_ids) AS event_id,
           contains(types, '"float"') AND NOT regexp_matches(types, 'Half|BFloat16|double') AS is_float,
           CASE WHEN is_matrix AND peak IN ('fp32', 'tf32') AND flops > 0 THEN
               greatest(thresholds().half_share * (read_bytes + written_bytes) * 1e9 / memory_bytes_per_s,
                   busy_ns * peak_of(flop_per_s, peak, TRUE) / fast) / busy_ns END AS factor
    FROM all_work AS w JOIN format AS f ON w.trace_id = f.trace_id AND w.device_id = f.device_id
    WHERE is_asked(w.trace_id) AND busy_ns > 0
),
typed AS MATERIALIZED (
    SELECT g.trace_id, g.device_id, g.event_id AS gpu_op_id, g.launch_id AS event_id, g.start_ns, g.dur_ns,
           -- Under autocast, an operator of fp32 may run a kernel of another format: products' names tell.
           is_product, CASE WHEN n.is_float THEN coalesce(w.is_float, TRUE)
               ELSE n.is_float IS NULL AND NOT is_product AND coalesce(w.is_float, FALSE) END AS is_float,
           factor AS known_factor, format,
           format || ', mostly ' || regexp_extract(g.name, '^(void )?([^<(]+)', 2) AS told
    FROM gpu_ops AS g JOIN named AS n USING (label_id)
    JOIN format AS f ON g.trace_id = f.trace_id AND g.device_id = f.device_id
    LEFT JOIN worked AS w ON g.trace_id = w.trace_id AND g.event_id = w.event_id
    WHERE is_asked(g.trace_id)
),
net AS (
    SELECT trace_id, device_id FROM typed GROUP BY ALL
    HAVING sum_where(dur_ns, is_product AND is_float)
        > thresholds().captured_majority * sum_where(dur_ns, is_product)
),
kernel AS (
    SELECT trace_id, event_id, gpu_op_id, 'op' AS target, start_ns, dur_ns, dur_ns AS ns, told,
           greatest(coalesce(known_factor, thresholds().half_share), thresholds().launch_floor_ns / dur_ns)
               AS factor
    FROM typed SEMI JOIN net USING (trace_id, device_id) WHERE is_float AND factor < 1
)
FROM changed_ops('kernel')
