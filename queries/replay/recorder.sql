-- question: How much did recording slow the run?
-- since: 0.1
-- column profiled_ns (ns): step time while recording, measured by `tracekit capture`; NULL: not measured
-- column unprofiled_ns (ns): step time without a profiler
-- column cost_ns (ns): the cost to the host's main thread, estimated from its events; NULL: small or unknown
-- doubts: absurd_duration
SELECT trace_id, profiled_ns, unprofiled_ns, time_ns AS cost_ns
FROM measured_steps LEFT JOIN (FROM recorder_finding WHERE code = 'recorder_cost') USING (trace_id)
WHERE is_asked(trace_id)
