-- fact: A GPU op with the time that its operator would take at the peaks of the device.
-- needs: operator_time, replayed_work, device_peaks
-- of: operator_work, gpu_ops
-- scope: all
CREATE TABLE gpu_op_roof (
    trace_id INTEGER, event_id BIGINT, -- the GPU op
    math_ns   BIGINT,  -- of arithmetic; NULL: the peak is not known
    memory_ns BIGINT,  -- of memory traffic
    busy_ns   BIGINT   -- the union of all GPU ops of the operator
);
SELECT w.trace_id, unnest(gpu_op_ids) AS event_id,
       (flops * 1e9 / peak_of(p.flop_per_s, peak, is_matrix))::BIGINT AS math_ns,
       ((read_bytes + written_bytes) * 1e9 / p.memory_bytes_per_s)::BIGINT AS memory_ns, busy_ns
FROM all_work AS w JOIN device_peaks AS p USING (trace_id, device_id)
