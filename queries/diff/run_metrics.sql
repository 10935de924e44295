-- question: What are the figures of each run that gates and comparisons use?
-- since: 0.1
-- columns steps
-- column span_ns (ns): length of the median step; without steps, of the GPU-active span
-- columns busy_ns, compute_ns, exposed_comm_ns, exposed_memcpy_ns, idle_ns, host_late_ns
-- column active_ns (ns): length of the main device's GPU-active span
-- columns kernels
-- column kernel_ns (ns): sum of kernel durations
-- column launches (count): calls that enqueued device work that was recorded
-- columns operators
-- column dispatch_ns (ns): operators' time outside inner slices
-- column sync_ns (ns): host time in calls that wait for the device
-- column copied_bytes (bytes): bytes copied to, from and on devices
-- columns unit, units, unit_ns
-- column tokens (tokens per unit): read and generated, the mean; NULL: unknown
-- column samples (samples per unit): the captured batch; NULL: unknown
-- doubts: no_gpu_ops, unlinked_gpu_ops, starts_before_launch, absurd_duration, cold_first_step,
--     profiler_dilation
FROM run_figures WHERE is_asked(trace_id)
ORDER BY trace_id
