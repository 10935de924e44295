-- question: How long did the host take for each step, and how much of that was waiting for the device?
-- since: 0.1
-- column step (text): the step
-- columns start_ns, host_ns
-- column waiting_ns (ns): the part of it in synchronizations and blocking copies
-- doubts: no_steps, no_runtime_calls
SELECT s.trace_id, s.name AS step, s.start_ns, s.dur_ns AS host_ns,
       coalesce(sum(w.dur_ns), 0)::BIGINT AS waiting_ns
FROM steps AS s LEFT JOIN waiting_call AS w ON s.trace_id = w.trace_id AND s.pid = w.pid
    AND w.start_ns >= s.start_ns AND w.end_ns <= s.end_ns
WHERE is_asked(s.trace_id)
GROUP BY ALL
ORDER BY trace_id, s.start_ns
