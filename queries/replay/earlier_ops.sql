-- question: Which GPU ops ran before the GPU-active span, beside work that was launched before the recording?
-- columns event_id
-- doubts: no_gpu_ops
SELECT trace_id, event_id
FROM gpu_ops AS o JOIN windows AS w USING (trace_id, device_id)
WHERE is_asked(trace_id) AND w.kind = 'gpu_active' AND o.start_ns < w.start_ns
ORDER BY trace_id, event_id
