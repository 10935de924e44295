-- question: Where does one stream wait for another?
-- param trace (integer, default all): the trace_id to look at
-- column trace_id (id): the trace
-- column event_id (id): the call that makes a stream wait
-- column pid (id): the process
-- column tid (id): the thread
-- column start_ns (ns): where the call begins: what the stream is given later waits
-- column stream (id): the stream that waits; NULL: the trace does not say (cuda_sync events tell it)
-- column wait_on_stream (id): the stream that is waited for; NULL: the trace does not say
-- column until_ns (ns): what that stream was given before this instant is waited for; NULL: the trace does not say
-- doubts: no_runtime_calls
SELECT
    c.trace_id, c.event_id, c.pid, c.tid, c.start_ns, any_value(s.stream) AS stream, any_value(s.wait_on_stream) AS wait_on_stream,
    min(r.start_ns) AS until_ns
FROM runtime_calls AS c
LEFT JOIN (
    SELECT trace_id, correlation, stream, TRY_CAST(args->>'wait_on_stream' AS BIGINT) AS wait_on_stream,
           TRY_CAST(args->>'wait_on_cuda_event_record_corr_id' AS BIGINT) AS record
    FROM slices WHERE kind = 'device_sync'
) AS s ON c.trace_id = s.trace_id AND c.correlation = s.correlation
LEFT JOIN (SELECT trace_id, correlation, start_ns FROM runtime_calls WHERE contains(name, 'EventRecord')) AS r
  ON s.trace_id = r.trace_id AND s.record = r.correlation
WHERE is_stream_wait(c.name) AND c.trace_id = coalesce(getvariable('trace'), c.trace_id)
GROUP BY c.trace_id, c.event_id, c.pid, c.tid, c.start_ns
ORDER BY c.trace_id, c.pid, c.tid, c.start_ns
