-- question: How long does the host wait for the device once it has launched everything?
-- since: 0.1
-- column last_wait_ns (ns): the last call that waits for the device, after the last launch
-- doubts: no_gpu_ops
-- Without a recorded device, a wait that is short beside the run tells that the host is late; not where
-- counters were read, since that runs one kernel after the other inside their launches.
SELECT trace_id, arg_max(s.dur_ns, s.start_ns) AS last_wait_ns
FROM (SELECT trace_id, max(start_ns) AS last_ns FROM launches GROUP BY trace_id)
JOIN syncs AS s USING (trace_id)
WHERE s.start_ns > last_ns AND is_asked(trace_id)
    AND NOT EXISTS (FROM slices AS c WHERE c.trace_id = s.trace_id AND c.kind = 'counter_range')
GROUP BY trace_id
ORDER BY trace_id
