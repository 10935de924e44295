-- question: How long did the GPU compute, communicate, copy or idle in each window, and why did it idle?
-- since: 0.1
-- params kind
-- columns rank, device_id, kind, name, start_ns, end_ns, span_ns, compute_ns, exposed_comm_ns,
--     exposed_memcpy_ns, idle_ns, host_late_ns, device_ns, device_in_launch_ns, unlinked_ns,
--     after_last_op_ns, busy_ns, waits_for_host_ns, kernels, gpu_ops, linked
-- doubts: no_gpu_ops, unlinked_gpu_ops, starts_before_launch, absurd_duration
-- The partition is defined in facts/gpu_timeline.sql (the instants) and views/windows.sql (partition_of).
SELECT trace_id, rank, p.* EXCLUDE trace_id
FROM window_partition AS p JOIN trace USING (trace_id)
WHERE is_asked(trace_id) AND kind = coalesce(getvariable('kind'), kind)
ORDER BY trace_id, device_id, kind, start_ns, end_ns
