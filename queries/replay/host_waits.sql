-- question: Which calls of the host wait for a device, and for what?
-- since: 0.1
-- columns event_id, call
-- column cause (text): sync, or allocation for calls that wait only sometimes
-- columns pid, tid, start_ns, dur_ns
-- column scope (text): device (everything launched), stream (everything launched to it), event (everything
--     launched before it was recorded), ready (a result: the last op that ends in it) or maybe (it waits if
--     it ends right after the device's last op)
-- columns stream, until_ns
-- doubts: no_runtime_calls, absurd_duration
WITH recorded AS (
    SELECT trace_id, correlation,
           any_value(coalesce(nullif(wait_on_stream, -1), nullif(stream, -1))) AS stream,
           min(record_ns) AS record_ns
    FROM event_waits GROUP BY trace_id, correlation
),
waiting AS (
    SELECT *, coalesce(activity = 'allocation', FALSE) AND call <> 'free_waiting' AS is_maybe,
           start_ns AS until_ns
    FROM runtime_calls WHERE activity IN ('sync', 'allocation') AND is_asked(trace_id)
    UNION ALL BY NAME
    -- A frame may wait for what other threads launch meanwhile.
    SELECT *, FALSE AS is_maybe, end_ns AS until_ns FROM slices
    WHERE kind = 'python' AND activity = 'sync' AND is_asked(trace_id)
),
-- If a waiting call is inside another (MTIA's synchronize), the outer one waits.
call AS (FROM waiting QUALIFY is_outermost((trace_id, pid, tid), start_ns, end_ns))
SELECT
    c.trace_id, c.event_id, c.name AS call, c.activity AS cause, pid, tid, start_ns, dur_ns,
    CASE WHEN kind = 'python' THEN 'ready'
        WHEN is_maybe OR (c.call = 'wait_event' AND r.record_ns IS NULL) THEN 'maybe'
        WHEN c.call = 'wait_event' THEN 'event' WHEN c.call = 'wait_stream' THEN 'stream' ELSE 'device' END
        AS scope,
    r.stream, coalesce(r.record_ns, until_ns) AS until_ns
FROM call AS c LEFT JOIN recorded AS r ON c.trace_id = r.trace_id AND c.correlation = r.correlation
ORDER BY c.trace_id, pid, tid, start_ns
