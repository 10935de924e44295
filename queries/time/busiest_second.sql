-- question: In which second of a trace is each device busiest?
-- since: 0.1
-- columns device_id
-- column start_ns (ns): start of the second: a whole number of seconds after the device's first GPU op
-- column end_ns (ns): end of the second, at most the device's last op
-- column ops_ns (ns): duration of the GPU ops that begin in it
-- doubts: no_gpu_ops, absurd_duration
SELECT trace_id, device_id, start_ns, least(start_ns + thresholds().drawn_ns, end_ns) AS end_ns, ops_ns
FROM (
    SELECT o.trace_id, o.device_id, w.end_ns, sum(o.dur_ns)::BIGINT AS ops_ns,
           w.start_ns + (o.start_ns - w.start_ns) // thresholds().drawn_ns * thresholds().drawn_ns AS start_ns
    FROM gpu_ops AS o JOIN windows AS w USING (trace_id, device_id)
    WHERE w.kind = 'gpu_active' AND is_asked(o.trace_id)
    GROUP BY ALL
)
QUALIFY row_number() OVER (PARTITION BY trace_id, device_id ORDER BY ops_ns DESC, start_ns) = 1
ORDER BY trace_id, device_id
