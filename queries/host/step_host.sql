-- question: How long did the host take for each step, and for how much of that did it wait for the device?
-- params trace
-- columns trace_id
-- column step (text): the profiler step
-- columns start_ns
-- column host_ns (ns): how long the host took for it
-- column waiting_ns (ns): the part of it in synchronizations and blocking copies
-- doubts: no_steps, no_runtime_calls
WITH step AS (
    SELECT trace_id, name, pid, start_ns, end_ns FROM steps
    WHERE trace_id = coalesce(getvariable('trace'), trace_id)
),
inside AS (
    SELECT s.trace_id, s.name, s.start_ns, sum(w.dur_ns)::BIGINT AS ns
    FROM step AS s JOIN waiting_call AS w ON s.trace_id = w.trace_id AND s.pid = w.pid
        AND w.start_ns >= s.start_ns AND w.end_ns <= s.end_ns
    GROUP BY ALL
)
SELECT trace_id, s.name AS step, s.start_ns, s.end_ns - s.start_ns AS host_ns,
       coalesce(inside.ns, 0) AS waiting_ns
FROM step AS s LEFT JOIN inside USING (trace_id, name, start_ns)
ORDER BY trace_id, s.start_ns
