-- question: Which operators of a device compute in float64?
-- since: 0.1
-- title: Compute in float32, not float64
-- causes: memory-bandwidth, math, math-or-memory
-- frameworks: PyTorch
-- when: (SELECT count(*) > 0 FROM (
--     SELECT DISTINCT dims, types FROM all_work WHERE contains(types, '"double"')
--     ) WHERE float64_bytes(dims, types) > 0)
-- less_work: true
-- needs: Results that need no more than the 24 bits of float32: masks, positions, postprocessing and losses
--     hardly ever do.
-- caveat: Operators are assumed to be limited by their bytes, and products by their math or their bytes. On
--     cards with few units for float64, as consumer cards are, other operators can gain more than that.
-- blind: no_shapes
-- before:
--     weights = torch.from_numpy(np.hanning(n)).to("cuda")    # NumPy makes float64
--     loss = (weights * error).sum()                          # and so is all that it meets
-- after:
--     weights = torch.from_numpy(np.hanning(n).astype(np.float32)).to("cuda")
--     loss = (weights * error).sum()
-- risks: Long sums, small differences of large numbers, and solvers may need float64: compare results.
-- check: tracekit query after.json operator_traffic; tracekit diff before.json after.json
-- sources: https://docs.pytorch.org/docs/stable/tensor_attributes.html#torch-dtype
--     https://docs.pytorch.org/docs/stable/generated/torch.from_numpy.html
-- column factor (fraction of the time taken): float64 tensors take half of their bytes, and products also
--     reach the same share of the peak of float32
-- doubts: no_gpu_ops, no_shapes, unlinked_gpu_ops, no_stacks
-- The inputs' types and shapes tell: kernels of float name float64, too, for their numbers. A float64 tensor
-- makes the result one, unless the operator writes into its first input.
WITH typed AS (
    SELECT *, shapes_of(dims) AS d, texts_of(types) AS t, read_bytes + written_bytes AS bytes,
           list_filter(list_zip(d, t), lambda x: x[2] = 'double' AND len(x[1]) > 0)[1][1] AS shape,
           CASE kind WHEN 'copy' THEN if(t[2] = 'double', read_bytes, 0) WHEN 'fill' THEN 0
               ELSE least(read_bytes, float64_bytes(dims, types)) END
           + CASE WHEN kind = 'comparison' THEN 0
               WHEN t[1] = 'double' OR kind = 'elementwise' AND NOT ends_with(name, '_') THEN written_bytes
               ELSE 0 END AS wide_bytes
    FROM all_work
    WHERE contains(types, '"double"') AND float64_bytes(dims, types) > 0 AND bytes > 0 AND is_asked(trace_id)
),
worked AS (
    SELECT w.trace_id, unnest(gpu_op_ids) AS gpu_op_id,
           bytes - thresholds().half_share * wide_bytes AS narrow_bytes,
           flops * 1e9 / peak_of(flop_per_s, 'fp64', TRUE) AS wide_ns,
           flops * 1e9 / peak_of(flop_per_s, 'fp32', TRUE) AS narrow_ns,
           CASE WHEN is_matrix AND wide_ns > 0 AND narrow_ns > 0
               THEN greatest(narrow_ns, narrow_bytes * 1e9 / memory_bytes_per_s)
                   / greatest(wide_ns, bytes * 1e9 / memory_bytes_per_s)
               ELSE narrow_bytes / bytes END AS of_work,
           name || ' of ' || shape::VARCHAR AS told
    FROM typed AS w LEFT JOIN device_peaks AS p ON w.trace_id = p.trace_id AND w.device_id = p.device_id
),
kernel AS (
    SELECT g.trace_id, g.launch_id AS event_id, gpu_op_id, 'op' AS target, g.start_ns, g.dur_ns,
           g.dur_ns AS ns, told, greatest(of_work, thresholds().launch_floor_ns / g.dur_ns) AS factor
    FROM worked AS w JOIN gpu_ops AS g ON w.trace_id = g.trace_id AND w.gpu_op_id = g.event_id
    WHERE factor < 1
)
FROM changed_ops('kernel')
