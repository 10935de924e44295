-- question: Where does one stream wait for another?
-- since: 0.1
-- columns event_id, pid, tid, start_ns
-- column stream (id): the stream that waits; NULL: unknown (cuda_sync events have it)
-- column wait_on_stream (id): the stream that it waits for; NULL: unknown
-- columns until_ns
-- when: call = 'stream_wait'
-- doubts: no_runtime_calls
SELECT c.trace_id, c.event_id, c.pid, c.tid, c.start_ns, any_value(w.stream) AS stream,
       any_value(w.wait_on_stream) AS wait_on_stream, min(w.record_ns) AS until_ns
FROM runtime_calls AS c LEFT JOIN event_waits AS w USING (trace_id, correlation)
WHERE c.call = 'stream_wait' AND is_asked(trace_id)
GROUP BY c.trace_id, c.event_id, c.pid, c.tid, c.start_ns
ORDER BY c.trace_id, c.pid, c.tid, c.start_ns
