-- question: What are HTA's launch statistics: each launch call, its op, and the delay between them?
-- since: 0.1
-- column correlation (id): the correlation of the launch and its op
-- column cpu_duration_ns (ns): the host's time in the call
-- column gpu_duration_ns (ns): the op's duration
-- column launch_delay_ns (ns): start of the op minus end of the call, at least 0
-- HTA's function is get_cuda_kernel_launch_stats. It recognizes launches by five names, and pairs every host
-- event that has a launch's correlation with every stream event that has it.
WITH held AS (FROM hta_events)
SELECT
    c.trace_id, c.correlation, c.dur_ns AS cpu_duration_ns, o.dur_ns AS gpu_duration_ns,
    greatest(0, o.start_ns - c.end_ns) AS launch_delay_ns
FROM (SELECT *, unnest(range(copies)) FROM held WHERE stream = -1) AS c
SEMI JOIN (FROM held WHERE is_hta_launch(name)) USING (trace_id, correlation)
JOIN (SELECT *, unnest(range(copies)) FROM held WHERE stream <> -1) AS o ON c.trace_id = o.trace_id
    AND c.correlation = o.correlation
ORDER BY c.trace_id, c.correlation, c.start_ns, o.start_ns
