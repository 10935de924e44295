-- question: Which copies bring parameters from the host each time that a layer needs them?
-- since: 0.1
-- title: Keep the parameters on the device
-- causes: copy
-- when: has(traits, 'shards_parameters') OR work IN ('linear', 'convolution'); (SELECT count(*) > 0
--     FROM gpu_ops WHERE copy_kind = 'HtoD' AND bytes > thresholds().tiny_copy_bytes)
-- needs: Memory on the devices for the parameters: in bf16, on more devices, or quantized. Where they do not
--     fit, copy them as bf16, and the next layer's while this one computes.
-- caveat: An upper bound: all of these copies are assumed to go.
-- before:
--     h = linear(h, layer.weight.to("cuda"))
--     fully_shard(layer, offload_policy=CPUOffloadPolicy())
-- after:
--     h = linear(h, layer.weight)      # after layer.to("cuda"), once
--     fully_shard(layer)               # MixedPrecisionPolicy(param_dtype=torch.bfloat16) halves the bytes
-- risks: Parameters, gradients and optimizer state may not fit; `tracekit query memory_peak` tells how
--     much is used, if allocations are recorded.
-- check: tracekit query after.json copies; tracekit diff before.json after.json
-- sources: https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html
--     https://huggingface.co/docs/accelerate/concept_guides/big_model_inference
-- doubts: no_gpu_ops, no_copies
-- A sharding or offloading range moves parameters alone; without one, shapes tell. Copies of their sizes
-- whose launch was not recorded belong to layers before.
WITH copy AS (
    SELECT trace_id, event_id, start_ns, dur_ns, bytes, launch_id, pid, tid, launch_start_ns FROM gpu_ops
    WHERE copy_kind = 'HtoD' AND bytes > thresholds().tiny_copy_bytes AND is_asked(trace_id)
),
sharding AS (
    SELECT trace_id, pid, tid, name, start_ns, end_ns FROM slices
    WHERE has(traits, 'shards_parameters') AND is_asked(trace_id)
    QUALIFY is_outermost((trace_id, pid, tid), start_ns, end_ns)
),
brought AS (
    SELECT c.* FROM copy AS c ASOF JOIN sharding AS s
      ON c.trace_id = s.trace_id AND c.pid = s.pid AND c.tid = s.tid AND c.launch_start_ns >= s.start_ns
    WHERE c.launch_start_ns < s.end_ns
    UNION ALL
    -- The last copy before a layer, of its weight's shape and not of its input's.
    SELECT c.* FROM (FROM cpu_ops WHERE work IN ('linear', 'convolution')) AS l ASOF JOIN copy AS c
      ON l.trace_id = c.trace_id AND l.pid = c.pid AND l.tid = c.tid AND l.start_ns > c.launch_start_ns
    JOIN thread_slice AS h ON c.trace_id = h.trace_id AND c.launch_id = h.event_id
    JOIN cpu_ops AS o ON h.trace_id = o.trace_id AND h.cpu_op_id = o.event_id
    WHERE shapes_of(o.input_dims)[1] = shapes_of(l.input_dims)[2]
        AND shapes_of(o.input_dims)[1] <> shapes_of(l.input_dims)[1]
)
SELECT trace_id, NULL AS place,
       formatReadableDecimalSize((sum(bytes) OVER (PARTITION BY trace_id))::BIGINT) || ' in all' AS detail,
       'op' AS target, event_id, pid, tid, start_ns, dur_ns, 0 AS factor
FROM copy WHERE (trace_id, event_id) IN (SELECT (trace_id, event_id) FROM brought)
    OR launch_id IS NULL AND (trace_id, bytes) IN (SELECT (trace_id, bytes) FROM brought)
