-- question: What is HTA's temporal breakdown: compute, other GPU work and idle time?
-- since: 0.1
-- column idle_ns (ns): kernel time minus the union of everything that HTA counts as GPU work
-- column compute_ns (ns): union of ops of type COMPUTATION by their names
-- column non_compute_ns (ns): the rest; the three add up to kernel_ns
-- column kernel_ns (ns): from the first GPU event to the end of the last interval of the union
-- HTA's function is get_temporal_breakdown. It also prints each value over kernel_ns, and fails without GPU
-- events.
WITH total AS (
    SELECT trace_id, arg_max(end_ns, start_ns) FILTER (kernel_type = 'ANY')
               - min(start_ns) FILTER (kernel_type = 'ANY') AS kernel_ns,
           sum_where(end_ns - start_ns, kernel_type = 'ANY') AS busy_ns,
           sum_where(end_ns - start_ns, kernel_type = 'COMPUTATION') AS compute_ns
    FROM hta_intervals GROUP BY trace_id
)
SELECT trace_id, kernel_ns - busy_ns AS idle_ns, compute_ns, busy_ns - compute_ns AS non_compute_ns, kernel_ns
FROM total ORDER BY trace_id
