-- question: How much longer did recording make the run?
-- column profiled_ns (ns): a step while recorded, as `tracekit capture` measured it; NULL: it did not
-- column unprofiled_ns (ns): the same without a profiler
-- column cost_ns (ns): the cost to the host's main thread, estimated from its events; NULL: small or unknown
-- doubts: absurd_duration
SELECT trace_id, TRY_CAST(metadata->'tracekit'->>'profiled_step_ns' AS BIGINT) AS profiled_ns,
       TRY_CAST(metadata->'tracekit'->>'unprofiled_step_ns' AS BIGINT) AS unprofiled_ns, time_ns AS cost_ns
FROM trace LEFT JOIN (FROM recorder_finding WHERE code = 'recorder_cost') USING (trace_id)
WHERE is_asked(trace_id)
