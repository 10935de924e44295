-- question: Where does one stream wait for another?
-- params trace
-- columns trace_id
-- column event_id (id): the call that makes a stream wait
-- columns pid, tid
-- column start_ns (ns): where the call begins: what the stream is given later waits
-- column stream (id): the stream that waits; NULL: the trace does not say (cuda_sync events tell it)
-- column wait_on_stream (id): the stream that is waited for; NULL: the trace does not say
-- column until_ns (ns): what that stream was given before this is waited for; NULL: the trace does not say
-- doubts: no_runtime_calls
SELECT
    c.trace_id, c.event_id, c.pid, c.tid, c.start_ns, any_value(w.stream) AS stream,
    any_value(w.wait_on_stream) AS wait_on_stream, min(w.record_ns) AS until_ns
FROM runtime_calls AS c LEFT JOIN event_waits AS w ON c.trace_id = w.trace_id
    AND c.correlation = w.correlation
WHERE c.call = 'stream_wait' AND c.trace_id = coalesce(getvariable('trace'), c.trace_id)
GROUP BY c.trace_id, c.event_id, c.pid, c.tid, c.start_ns
ORDER BY c.trace_id, c.pid, c.tid, c.start_ns
