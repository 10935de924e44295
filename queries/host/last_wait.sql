-- question: How long does the host wait for the device once it has launched everything?
-- since: 0.1
-- column last_wait_ns (ns): the last call that waits for the device, after the last launch
-- doubts: no_gpu_ops
-- If no device was recorded, a wait that is short compared with the run shows that the host is late. This
-- does not hold when counters were read, since kernels then run one by one inside their launches.
SELECT trace_id, arg_max(s.dur_ns, s.start_ns) AS last_wait_ns
FROM (SELECT trace_id, max(start_ns) AS last_ns FROM launches GROUP BY trace_id)
JOIN syncs AS s USING (trace_id)
WHERE s.start_ns > last_ns AND is_asked(trace_id)
    AND NOT EXISTS (FROM slices AS c WHERE c.trace_id = s.trace_id AND c.kind = 'counter_range')
GROUP BY trace_id
ORDER BY trace_id
